// SPDX-License-Identifier: Apache-2.0
// A client that does what an input says: requests that are nearly right, and writes of any kind
// into its own channel, while the node serves it.
#pragma once

#include "host.h"
#include "input.h"
#include "ring_server.h"

namespace orlop::fuzz {

class HostileClient {
 public:
  // victim: another client of the node, whose ids are tried too.
  HostileClient(Host& host, ClientId client, ClientId victim);

  const HostChannel& channel() const { return channel_; }
  RingServer& server() { return server_; }
  ClientId client() const { return client_; }

  void request(Input& input);      // one that the decoder mostly takes
  void raw_message(Input& input);  // 64 bytes as they come
  void scribble(Input& input);     // over any part of the channel but the plans
  void counters(Input& input);     // ring counters and flags
  void pin(Input& input);
  void resume(Input& input);
  // The node never writes the plans; nor does scribble().
  void check_plans() const;

 private:
  void push(const segment::RingMessage& message) const;
  std::uint64_t put_id(Input& input) const;
  std::vector<KeyId> some_keys(Input& input) const;
  std::vector<std::byte> body_of(std::uint32_t code, Input& input, segment::RingMessage& message);
  std::vector<std::byte> put_start_body(Input& input, segment::RingMessage& message) const;
  std::vector<std::byte> commit_body(Input& input, segment::RingMessage& message) const;
  std::vector<std::byte> report_body(Input& input) const;

  Host& host_;
  ClientId client_, victim_;
  HostChannel channel_;
  RingServer server_;
};

}  // namespace orlop::fuzz
