// SPDX-License-Identifier: Apache-2.0
// What the server does with one client's rings, without its loop: the same steps and the same
// limits as src/runtime/server_rings.cpp (which needs sockets;
// tests/process/daemon_hostile_test.cpp drives it as it is).
#pragma once

#include <vector>

#include "host.h"
#include "protocol/node/request_decoder.h"
#include "segment/ring.h"

namespace orlop::fuzz {

class RingServer {
 public:
  RingServer(Host& host, ClientId client, const segment::ChannelView& channel);

  // The client is attached or resumed: both of the node's counters begin at 0.
  void start(std::uint32_t ring_generation);
  void stop();
  bool serving() const { return serving_; }
  // Takes what waits, at most a turn's worth. A malformed message stops it.
  void serve();
  // For Host::on_effects: writes the answers to this client, heeds a close.
  void carry_out(const protocol::NodeEffects& effects);
  // Grants of the latest put_start that was answered with memory.
  PutId granted_put() const { return granted_put_; }
  const std::vector<protocol::SlotGrant>& grants() const { return grants_; }
  // The node has let go of the client.
  bool reclaimed() const { return reclaimed_; }

 private:
  struct Open {
    std::uint64_t request = 0;
    std::uint32_t code = 0;
    std::uint32_t answer_at = 0, answer_room = 0;
    PutId put;
  };
  bool handle(const segment::RingMessage& message);
  void write(const protocol::NodeAnswer& answer, const protocol::NodeEffects& effects);

  Host& host_;
  ClientId client_;
  segment::ChannelView channel_;
  segment::RingConsumer requests_;
  segment::RingProducer answers_;
  std::uint32_t generation_ = 0;
  bool serving_ = false, reclaimed_ = false;
  std::vector<Open> open_;
  protocol::DecodeScratch scratch_;
  PutId granted_put_;
  std::vector<protocol::SlotGrant> grants_;
};

}  // namespace orlop::fuzz
