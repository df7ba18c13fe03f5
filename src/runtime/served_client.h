// SPDX-License-Identifier: Apache-2.0
// What the server keeps of one client: its channel and what is asked and not yet answered.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "protocol/attach/attach_machine.h"
#include "runtime/channel_files.h"
#include "segment/channel.h"
#include "segment/ring.h"

namespace orlop::runtime {

// A request that was taken off the ring: where its answer goes. Offsets and sizes were checked
// when it was taken, against the node's own geometry.
struct OpenRequest {
  std::uint64_t request = 0;
  std::uint32_t code = 0;
  std::uint32_t answer_at = 0;    // offset in the arena
  std::uint32_t answer_room = 0;  // bytes
};

struct ServedClient {
  ClientId id;
  std::string name;
  std::uint32_t pid = 0;
  ChannelFiles files;
  segment::ChannelView view;
  segment::RingConsumer requests;
  segment::RingProducer answers;
  std::uint32_t ring_generation = 0;
  protocol::ConnectionId connection;  // 0: none
  bool served = false;                // its rings may be touched
  bool dead = false;                  // the machine knows
  bool unproved = false;          // no pidfd to be had (unsafe_no_pidfd): hang-up counts as death
  bool wake = false;              // got answers since its doorbell was looked after
  MonoNs asked_at = 0;            // the last turn in which it had asked something; 0: never
  std::vector<OpenRequest> open;  // at most kRingCells - 1, oldest first

  void start_serving(std::uint32_t generation) {
    ring_generation = generation;
    open.clear();
    open.reserve(segment::kRingCells);
    segment::ChannelHeader& header = view.header();
    requests =
        segment::RingConsumer(view.request_cells(), &header.request_tail, &header.request_head);
    answers =
        segment::RingProducer(view.response_cells(), &header.response_tail, &header.response_head);
    requests.reset();
    answers.reset();
    served = true;
  }
  // Nothing of the channel's rings is touched afterwards, and what was asked is forgotten.
  void stop_serving() {
    served = false;
    wake = false;
    open.clear();
  }
  // Usually the oldest: answers come in order but for puts that wait for space.
  OpenRequest take_open(RequestId request) {
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (open[i].request != request.value) continue;
      const OpenRequest found = open[i];
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
      return found;
    }
    CHECK(false, "the machine answers what was asked, once");
    return {};
  }
};

}  // namespace orlop::runtime
