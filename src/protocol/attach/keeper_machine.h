// SPDX-License-Identifier: Apache-2.0
// The keeper's bookkeeping: which channels it holds, client ids, hand-over to a new server. Pure;
// the driver (src/node/keeper.cpp) owns the descriptors, keyed by client id.
//
// Rules (design 10 sections 2, 5): client ids are never reused within a segment; a channel is
// dropped only on the server's word (or when the same instance attaches again and says that it
// never received it); the count of channels is sent first, the end mark last; frames of an old
// server are read until its socket would block, then nothing of it counts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/ids.h"
#include "protocol/attach/frames.h"

namespace orlop::protocol {

class KeeperMachine {
 public:
  explicit KeeperMachine(SegmentId segment) : segment_(segment) {}

  // A server asks to hold a new client's descriptors (already received by the driver).
  // The answer's client id is 0 when kMaxClients are held or ids are exhausted; text says why.
  HeldFrame hold(const HoldFrame& frame);
  // The server reclaimed a channel: true if it was held (the driver closes its descriptors).
  bool drop(ClientId client);
  // A new server starts: what to tell it, in this order: hello, hand-overs, end mark. The driver
  // fills in what hello says about the machine (sizes, keeper, the server before).
  struct HandOver {
    HelloFrame hello;
    std::vector<HandOverFrame> channels;
  };
  HandOver begin_server(Incarnation incarnation);
  // A server is ready. From the first one on the segment has contents: no start is cold any more.
  // Until then no client is attached (the server accepts only afterwards), so a server that died in
  // its cold start leaves nothing: the driver formats the control area again.
  void serving() { served_ = true; }
  bool served() const { return served_; }
  std::size_t held() const { return channels_.size(); }
  bool holds(ClientId client) const { return channels_.contains(client); }

 private:
  SegmentId segment_;
  std::uint32_t next_client_ = 1;
  bool served_ = false;
  std::map<ClientId, HandOverFrame> channels_;
};

}  // namespace orlop::protocol
