// SPDX-License-Identifier: Apache-2.0
// Frames of the Unix socket (SOCK_SEQPACKET): attach, resume, their answers; and of the socket pair
// between keeper and server. Fixed layouts, native endian, one frame a packet; the first 8 bytes
// are {magic "ORLF", kind}. Parsers check length, kind, every count; they are fuzzed.
//
// Guarantees of decode(): never reads outside the span, allocates no more than the limits below,
// accepts exactly what encode() makes. A frame of another ABI version is told apart from a broken
// one (kAbiMismatch naming both versions): magic, kind and abi never move.
// Thread: pure functions, any.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "orlop/error.h"
#include "protocol/messages.h"
#include "segment/channel.h"
#include "segment/control_area.h"

namespace orlop::protocol {

inline constexpr std::uint32_t kFrameMagic = 0x464c524f;  // "ORLF"
inline constexpr std::size_t kMaxFrameBytes = 64 * 1024;
inline constexpr std::size_t kMaxClientName = 64;  // printable ASCII, see clean_client_name()
inline constexpr std::size_t kMaxServerEndText = 200;
inline constexpr std::size_t kMaxPlacementText = 1'000;
inline constexpr std::size_t kMaxMadeWithText = 200;
inline constexpr std::uint32_t kMaxClients = 256;  // attached at once; fd budget: 8 per client

enum class FrameKind : std::uint32_t {
  // client -> server
  kAttach = 1,  // + fd: read end of the client's fork pipe
  kResume = 2,  // + fd: read end of the fork pipe
  // server -> client
  kWelcome =
      3,  // + fds: control (read-only), value, channel, node doorbell, client doorbell, keeper pipe
  kResumed = 4,  // rings may be used again (no fds: the client kept them)
  kRefusal = 5,  // ErrorCode and text; the server closes after it (codes: attach_machine.h)
  // server -> keeper
  kHold = 10,     // + fds: channel, node doorbell, client doorbell, pidfd, fork pipe read end
  kDrop = 11,     // the channel of this client is reclaimed
  kServing = 12,  // this server is ready: recovery done, accepting
  kPong = 13,     // answers kPing, from the loop that serves
  // keeper -> server
  kHello = 20,     // + fds: control, value, listening socket, admin socket if `admin`
  kHandOver = 21,  // + fds: channel, node doorbell, client doorbell, pidfd, fork pipe read end
  kHandOverEnd = 22,
  kHeld = 23,  // keeper holds everything. + fd: read end of this client's keeper pipe; no fd when
               // refused
  kStop = 24,  // graceful stop: detach nothing, answer what waits, exit
  kPing = 25,  // is the loop alive?
  kUpgrade = 26,  // what became of the last upgrade, for status
  // On no socket: what the keeper writes down for the keeper after it (keeper_ledger.h)
  kLedger = 30,
};

// What became of the last SIGHUP.
enum class UpgradeOutcome : std::uint32_t {
  kNone = 0,
  kRefused = 1,     // the check failed; the old server was not touched
  kSucceeded = 2,   // the new program served long enough
  kRolledBack = 3,  // it did not; the program before it runs again
};
std::string_view to_string(UpgradeOutcome outcome);
inline constexpr std::size_t kMaxVersionText = 64;
inline constexpr std::size_t kMaxUpgradeReason = 300;

// Says by being sent that this instance has no channel: one that a server made for it before is
// dropped.
struct AttachFrame {
  std::uint32_t abi = segment::kAbiVersion;
  std::uint64_t nonce = 0;  // of this client instance
  segment::ChannelSizes sizes;
  std::string name;
};
struct ResumeFrame {
  std::uint32_t abi = segment::kAbiVersion;
  std::uint64_t nonce = 0;
  SegmentId segment;
  ClientId client;
  std::uint32_t ring_generation = 0;
  std::vector<PutId> held;  // <= kMaxHeldPuts, all of this client
};
struct WelcomeFrame {
  std::uint32_t abi = segment::kAbiVersion;
  SegmentId segment;
  Incarnation incarnation;
  ClientId client;
  segment::ChannelSizes sizes;  // granted
  std::uint64_t control_bytes = 0, value_bytes = 0;
};
struct ResumedFrame {
  Incarnation incarnation;
};
struct RefusalFrame {
  ErrorCode code = ErrorCode::kRefused;
  std::string text;
};
struct HoldFrame {
  std::uint64_t nonce = 0;
  std::uint64_t attach = 0;  // server's own number of this attach; kHeld echoes it
  std::uint32_t pid = 0;     // for display
  segment::ChannelSizes sizes;
  std::string name;
};
struct HeldFrame {
  std::uint64_t attach = 0;
  ClientId client;  // issued by the keeper; 0 = refused (text says why)
  std::string text;
};
struct DropFrame {
  ClientId client;
};
struct HelloFrame {
  SegmentId segment;
  Incarnation incarnation;     // of this server; new at every start
  bool cold = false;           // no server has served this segment yet: formatted, empty
  bool admin = false;          // an admin socket comes with it
  std::uint32_t channels = 0;  // number of kHandOver frames that follow
  std::uint32_t restarts = 0;  // servers that ended before this one
  std::uint32_t keeper_pid = 0;
  MonoNs keeper_started = 0;  // CLOCK_MONOTONIC: uptime of the node
  std::uint64_t control_bytes = 0, value_bytes = 0;
  // What the keeper's first touch achieved; the server cannot see it, it maps without touching.
  std::uint64_t touched_bytes = 0, huge_bytes = 0;
  std::string placement;  // bytes per memory node: "0=1073741824 1=1073741824"
  std::string last_end;   // how the server before ended, in words; empty: none was
};
// The pairs of a placement text; what is no such pair ends it.
std::vector<std::pair<int, std::uint64_t>> parse_placement(std::string_view text);
struct UpgradeFrame {
  UpgradeOutcome outcome = UpgradeOutcome::kNone;
  std::string from, to;  // versions; equal: the same program, which read its configuration again
  std::string reason;    // why refused or rolled back
  std::uint32_t refused = 0, succeeded = 0, rolled_back = 0;  // since the keeper's start
};
struct HandOverFrame {
  ClientId client;
  std::uint64_t nonce = 0;
  std::uint32_t pid = 0;
  segment::ChannelSizes sizes;
  std::string name;
};

// Everything that a new keeper must know to go on with the descriptors of the one before.
struct LedgerFrame {
  std::uint32_t abi = segment::kAbiVersion;
  SegmentId segment;
  bool served = false;            // a server has served it: it has contents
  std::uint32_t next_client = 1;  // first client id never given out
  std::uint32_t server = 0;       // number of the server that was given the memory; 0: none was
  std::uint32_t restarts = 0;
  std::uint64_t control_bytes = 0, value_bytes = 0, slab_bytes = 0;
  // Inode numbers of both areas: what comes back under their names is them.
  std::uint64_t control_inode = 0, value_inode = 0;
  std::uint64_t touched_bytes = 0, huge_bytes = 0;
  std::string placement;
  std::string made_with;  // the settings that only new memory takes up: "memory.huge = try; ..."
  std::vector<HandOverFrame> clients;  // <= kMaxClients, by id, ascending
};

using Bytes = std::vector<std::byte>;
Bytes encode(const AttachFrame&);
Bytes encode(const ResumeFrame&);
Bytes encode(const WelcomeFrame&);
Bytes encode(const ResumedFrame&);
Bytes encode(const RefusalFrame&);
Bytes encode(const HoldFrame&);
Bytes encode(const HeldFrame&);
Bytes encode(const DropFrame&);
Bytes encode(const HelloFrame&);
Bytes encode(const HandOverFrame&);
Bytes encode(const UpgradeFrame&);
Bytes encode(const LedgerFrame&);
Bytes encode_bare(FrameKind kind);  // kServing, kHandOverEnd, kStop, kPing, kPong

// Cut to kMaxClientName, other than printable ASCII replaced by '_'. What a client sends as its
// name.
std::string clean_client_name(std::string_view name);

// Kind of a frame; an error for anything that is no frame of ours.
Result<FrameKind> frame_kind(std::span<const std::byte> frame);
// Each fails with kInvalidArgument and the field's name when the frame is not exactly one of these.
template <class Frame>
Result<Frame> decode(std::span<const std::byte> frame);  // specialised for every struct above
// Descriptors that must come with a kind (least..most); anything else is refused.
struct DescriptorRange {
  unsigned least = 0, most = 0;
  constexpr bool operator==(const DescriptorRange&) const = default;
};
DescriptorRange descriptors_of(FrameKind kind);

}  // namespace orlop::protocol
