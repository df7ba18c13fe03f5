// SPDX-License-Identifier: Apache-2.0
// The node's end of one client's rings: takes requests out, writes answers back.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "protocol/messages.h"
#include "protocol/node/node_machine.h"
#include "protocol/node/request_decoder.h"
#include "segment/ring.h"

namespace orlop::simulation {

class RingEnd {
 public:
  enum class Taken { kNothing, kRequest, kBroken };

  // The counters in the channel are 0: it is new, or its client has reset it.
  RingEnd(const segment::ChannelView& channel, std::uint32_t ring_generation);

  // max_wait: the longest that the node lets a put wait for memory.
  Taken take(ClientId client, MonoNs now, MonoNs max_wait);
  // What was taken; null for a ping, which is answered here. Spans live until the next take().
  const protocol::NodeEvent* request() const { return request_ ? &*request_ : nullptr; }
  bool waits_for(const protocol::NodeAnswer& answer) const {
    return open_.contains(answer.request);
  }
  // Requires waits_for(answer).
  void answer(const protocol::NodeAnswer& answer, const protocol::NodeEffects& effects);
  bool request_waits() const { return !requests_.empty(); }
  // Asked and not answered although its time is over.
  std::optional<protocol::RequestCode> overdue(MonoNs now) const;

 private:
  // A request that is not answered yet: where its answer goes.
  struct Open {
    protocol::RequestCode code = protocol::RequestCode::kPing;
    std::uint32_t answer_offset = 0;
    std::uint32_t answer_room = 0;
    MonoNs due = 0;  // answered in the turn that takes it, or by then
  };
  void push(RequestId request, const Open& open, std::span<const std::byte> body,
            std::uint64_t status, std::span<const std::uint64_t> args);

  segment::ChannelView channel_;
  std::uint32_t ring_generation_;
  segment::RingConsumer requests_;
  segment::RingProducer responses_;
  std::map<RequestId, Open> open_;
  std::optional<protocol::NodeEvent> request_;
  protocol::DecodeScratch scratch_;
};

}  // namespace orlop::simulation
