// SPDX-License-Identifier: Apache-2.0
// What goes over a channel's rings: codes, arguments and fixed-layout bodies. Native endian: both
// sides are on one host and of one ABI version (segment::kAbiVersion).
//
// A request's body region in the arena holds the request first and, from answer_offset(), room for
// the answer; the node writes the answer there and answers with body_offset/body_bytes of it.
// A malformed message (unknown code, offsets or counts out of bounds, wrong ring generation inside
// one ring) closes that client only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/bytes.h"
#include "base/ids.h"
#include "orlop/outcome.h"
#include "segment/channel.h"

namespace orlop::protocol {

inline constexpr std::uint32_t kMaxKeysPerPut = 65'535;
inline constexpr std::uint32_t kMaxHeldPuts =
    4'096;  // per client; its re-attach snapshot is one frame

enum class RequestCode : std::uint32_t {
  // args: text bytes. body: descriptor text. Answer args: row, current index, value_len
  kOpenNamespace = 1,
  kPutStart = 2,        // body: PutStartBody. Answer body: SlotGrant[keys], then Outcome[keys]
  kPutCommit = 3,       // body: CommitEntry[count]. Answer body: Outcome[count]
  kPutAbort = 4,        // args: put id. Answer: status only
  kRemove = 5,          // args: row, count. body: KeyId[count]. Answer args[0]: slots doomed
  kFlush = 6,           // args: row, 1 = whole family. Answer args[0]: namespaces flushed
  kReportMismatch = 7,  // body: MismatchReport. Answer args[0]: 1 = will be checked
  kDetach = 8,          // the client has ended all plans and goes
  kPing = 9,            // answered at once; for benches and doctor
  // args: DrainMode. Answer args: 1 = the node drains now, puts that are open or wait, pages held
  // by read plans of all living clients (counted anew every 10 ms)
  kDrain = 10,
};
inline constexpr RequestCode kLastRequestCode = RequestCode::kDrain;

enum class DrainMode : std::uint32_t { kEnd = 0, kBegin = 1, kAsk = 2 };

// Status of an answer as a whole (args[0] of RingMessage has call-specific content; status is in
// args[4]). kOk or an ErrorCode value + 1000-character limit text in the body for errors.
inline constexpr unsigned kStatusArg = 4;
inline constexpr std::uint64_t kStatusOk = 0;  // else static_cast<uint64_t>(ErrorCode); body = text
inline constexpr std::uint32_t kMaxErrorText = 1'000;

// ---- put_start -----------------------------------------------------------------------------
// args: [0] put id, [1] namespace row | key_count << 32, [2] value_len | group_count << 32,
//       [3] wait budget in us (node uses min(this, 10 ms)), [4] PutFlags
// body: KeyId keys[key_count]; uint32 group_lens[group_count] (group_count 0 = one key per group);
//       KeyId parent if kHasParent.
enum PutFlags : std::uint64_t { kHasParent = 1 };

struct SlotGrant {
  std::uint32_t slot = 0;  // 0 = no memory for this key, see its outcome
  std::uint32_t generation = 0;
};
static_assert(sizeof(SlotGrant) == 8);

// ---- put_commit ----------------------------------------------------------------------------
// args: [0] put id, [1] count. One entry per slot granted, in key order, whole groups only.
struct CommitEntry {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  std::uint64_t checksum = 0;
};
static_assert(sizeof(CommitEntry) == 16);

// ---- mismatch report -----------------------------------------------------------------------
struct MismatchReport {
  KeyId key;
  std::uint32_t ns = 0;
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(MismatchReport) == 32);

// Bytes of request parts and where the answer room begins (8-byte aligned).
constexpr std::uint64_t put_start_request_bytes(std::uint64_t keys, std::uint64_t groups,
                                                bool parent) {
  return keys * sizeof(KeyId) + groups * 4 + (parent ? sizeof(KeyId) : 0);
}
constexpr std::uint64_t put_start_answer_bytes(std::uint64_t keys) {
  return keys * 9;
}
constexpr std::uint64_t put_commit_request_bytes(std::uint64_t n) {
  return n * sizeof(CommitEntry);
}
constexpr std::uint64_t put_commit_answer_bytes(std::uint64_t n) {
  return n;
}
// Every region has room for an error text.
constexpr std::uint64_t answer_offset(std::uint64_t request_bytes) {
  return align_up(request_bytes, 8);
}
constexpr std::uint64_t region_bytes(std::uint64_t request_bytes, std::uint64_t answer_bytes) {
  return answer_offset(request_bytes) +
         (answer_bytes < kMaxErrorText ? kMaxErrorText : answer_bytes);
}

}  // namespace orlop::protocol
