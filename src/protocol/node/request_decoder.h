// SPDX-License-Identifier: Apache-2.0
// From a ring message to an event: pure decoding of what a client wrote.
//
//   DecodeScratch scratch;                       // one per client or per loop, reused
//   auto request = decode_request(message, channel.arena(), client, generation, scratch);
//   if (!request) close that client, request.error() says why
//   else if (!request->event) answer a ping
//   else node.step(*request->event, now, effects)
//
// The client may change its arena at any moment: bytes are copied into the scratch first and only
// the copy is validated and used. Everything is bounded: offsets, counts, sums, unknown codes and
// flags. What is wrong with the *meaning* of well-formed arguments (duplicates, a value_len that is
// not the namespace's) is the node machine's to answer; what is malformed closes the client.
// Thread: any; no state but the scratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "orlop/error.h"
#include "protocol/messages.h"
#include "protocol/node/node_machine.h"
#include "segment/channel.h"

namespace orlop::protocol {

// Longest descriptor text that is read; canonical ones are far shorter.
inline constexpr std::uint32_t kMaxNamespaceRequestBytes = 16 * 1024;

// Memory of decoded bodies; events point into it until the next decode_request() with it.
struct DecodeScratch {
  std::vector<KeyId> keys;
  std::vector<std::uint32_t> group_lens;
  std::vector<CommitEntry> entries;
  std::string text;
};

struct DecodedRequest {
  RequestCode code = RequestCode::kPing;
  RequestId request;
  std::uint32_t answer_offset = 0;  // in the arena
  std::uint32_t answer_room = 0;   // bytes; enough for the answer, maybe not for a whole error text
  std::optional<NodeEvent> event;  // nullopt: kPing, answered by the driver
};

// ring_generation: of the client's last acknowledged reset. Errors: kCorrupt; the message names the
// field, its value and its bound.
Result<DecodedRequest> decode_request(const segment::RingMessage& message,
                                      std::span<const std::byte> arena, ClientId client,
                                      std::uint32_t ring_generation, DecodeScratch& scratch);

}  // namespace orlop::protocol
