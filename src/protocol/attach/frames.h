// SPDX-License-Identifier: Apache-2.0
// Frames of the Unix socket (SOCK_SEQPACKET): attach, resume, their answers; and of the socket pair
// between keeper and server. Fixed layouts, native endian, one frame a packet; the first 8 bytes are
// {magic "ORLF", kind}. Parsers check length, kind, every count; they are fuzzed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "orlop/error.h"
#include "protocol/messages.h"
#include "segment/channel.h"
#include "segment/control_area.h"

namespace orlop::protocol {

inline constexpr std::uint32_t kFrameMagic = 0x464c524f;  // "ORLF"
inline constexpr std::size_t kMaxFrameBytes = 64 * 1024;
inline constexpr std::size_t kMaxClientName = 64;
inline constexpr std::uint32_t kMaxClients = 256;  // attached at once; fd budget: 8 per client

enum class FrameKind : std::uint32_t {
  // client -> server
  kAttach = 1,    // + fd: read end of the client's fork pipe
  kResume = 2,    // + fd: read end of the fork pipe
  // server -> client
  kWelcome = 3,   // + fds: control (read-only), value, channel, node doorbell, client doorbell, keeper pipe
  kResumed = 4,   // rings may be used again (no fds: the client kept them)
  kRefusal = 5,   // ErrorCode and text; the server closes after it
  // server -> keeper
  kHold = 10,     // + fds: channel, node doorbell, client doorbell, pidfd, fork pipe read end
  kDrop = 11,     // the channel of this client is reclaimed
  kServing = 12,  // this server is ready: recovery done, accepting
  // keeper -> server
  kHello = 20,    // + fds: control, value, listening socket
  kHandOver = 21, // + fds: channel, node doorbell, client doorbell, pidfd, fork pipe read end
  kHandOverEnd = 22,
  kHeld = 23,     // + fd: read end of the keeper pipe for this client; keeper holds everything
  kStop = 24,     // graceful stop: detach nothing, answer what waits, exit
};

struct AttachFrame {
  std::uint32_t abi = segment::kAbiVersion;
  std::uint64_t nonce = 0;       // of this client instance
  segment::ChannelSizes sizes;
  std::string name;
};
struct ResumeFrame {
  std::uint32_t abi = segment::kAbiVersion;
  std::uint64_t nonce = 0;
  SegmentId segment;
  ClientId client;
  std::uint32_t ring_generation = 0;
  std::vector<PutId> held;       // <= kMaxHeldPuts
};
struct WelcomeFrame {
  std::uint32_t abi = segment::kAbiVersion;
  SegmentId segment;
  Incarnation incarnation;
  ClientId client;
  segment::ChannelSizes sizes;   // granted
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
  std::uint64_t attach = 0;      // server's own number of this attach; kHeld echoes it
  std::uint32_t pid = 0;         // for display
  segment::ChannelSizes sizes;
  std::string name;
};
struct HeldFrame {
  std::uint64_t attach = 0;
  ClientId client;               // issued by the keeper; 0 = refused (text says why)
  std::string text;
};
struct DropFrame {
  ClientId client;
};
struct HelloFrame {
  SegmentId segment;
  Incarnation incarnation;
  bool cold = false;             // the control area is not formatted yet
  std::uint32_t channels = 0;    // number of kHandOver frames that follow
};
struct HandOverFrame {
  ClientId client;
  std::uint64_t nonce = 0;
  std::uint32_t pid = 0;
  segment::ChannelSizes sizes;
  std::string name;
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
Bytes encode_bare(FrameKind kind);  // kServing, kHandOverEnd, kStop

// Kind of a frame; an error for anything that is no frame of ours.
Result<FrameKind> frame_kind(std::span<const std::byte> frame);
// Each fails with kInvalidArgument and the field's name when the frame is not exactly one of these.
template <class Frame>
Result<Frame> decode(std::span<const std::byte> frame);  // specialised for every struct above
// Descriptors that must come with a kind; anything else is refused.
unsigned descriptors_of(FrameKind kind);

}  // namespace orlop::protocol
