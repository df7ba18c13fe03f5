// SPDX-License-Identifier: Apache-2.0
// Contract: one packet off a Unix socket, of a client, a server or a keeper.
//   * At most one kind accepts it, and it is the kind that frame_kind() says.
//   * decode() accepts exactly what encode() makes: encode(decode(x)) == x.
//   * What was accepted keeps to the limits of frames.h; what was refused names a reason.
//   * A frame of another ABI version is never accepted, nor taken for a broken one.
#include "frame_samples.h"
#include "fuzz_target.h"
#include "input.h"
#include "protocol/attach/frames.h"

namespace orlop::fuzz {
namespace {

using namespace protocol;

void check_name(const std::string& name) {
  CHECK(clean_client_name(name) == name, "a name is printable and not too long");
}

void check_limits(const AttachFrame& f) {
  CHECK(f.abi == segment::kAbiVersion && f.nonce != 0);
  check_name(f.name);
}
void check_limits(const ResumeFrame& f) {
  CHECK(f.abi == segment::kAbiVersion && f.nonce != 0 && f.segment && f.client);
  CHECK(f.held.size() <= kMaxHeldPuts);
  for (const PutId put : f.held) CHECK(owner_of(put) == f.client);
}
void check_limits(const WelcomeFrame& f) {
  CHECK(f.abi == segment::kAbiVersion && f.segment && f.incarnation && f.client);
}
void check_limits(const ResumedFrame& f) {
  CHECK(f.incarnation.value != 0);
}
void check_limits(const RefusalFrame& f) {
  CHECK(f.code <= ErrorCode::kClosed && f.text.size() <= kMaxErrorText);
}
void check_limits(const HoldFrame& f) {
  CHECK(f.nonce != 0 && f.attach != 0);
  check_name(f.name);
}
void check_limits(const HeldFrame& f) {
  CHECK(f.attach != 0 && f.text.size() <= kMaxErrorText);
}
void check_limits(const DropFrame& f) {
  CHECK(f.client.value != 0);
}
void check_limits(const HelloFrame& f) {
  CHECK(f.segment && f.incarnation);
  CHECK(f.placement.size() <= kMaxPlacementText && f.last_end.size() <= kMaxServerEndText);
}
void check_limits(const HandOverFrame& f) {
  CHECK(f.client && f.nonce != 0);
  check_name(f.name);
}
void check_limits(const UpgradeFrame& f) {
  CHECK(f.outcome <= UpgradeOutcome::kRolledBack && f.reason.size() <= kMaxUpgradeReason);
  CHECK(f.from.size() <= kMaxVersionText && f.to.size() <= kMaxVersionText);
}
void check_limits(const LedgerFrame& f) {
  CHECK(f.abi == segment::kAbiVersion && f.segment && f.clients.size() <= kMaxClients);
  for (const HandOverFrame& client : f.clients) check_limits(client);
}

// True if it is one of these.
template <class Frame>
bool is(std::span<const std::byte> input, FrameKind kind) {
  const auto found = frame_kind(input);
  const auto frame = decode<Frame>(input);
  if (!frame) {
    CHECK(!frame.error().message.empty());
    CHECK(frame.error().code == ErrorCode::kInvalidArgument ||
          frame.error().code == ErrorCode::kAbiMismatch);
    return false;
  }
  CHECK(found && *found == kind, "only a frame of this kind is one");
  const Bytes again = encode(*frame);
  CHECK(again.size() == input.size() && std::ranges::equal(again, input),
        "decode() accepts exactly what encode() makes");
  check_limits(*frame);
  return true;
}

bool is_bare(std::span<const std::byte> input) {
  const auto kind = frame_kind(input);
  if (!kind || input.size() != 8) return false;
  return *kind == FrameKind::kServing || *kind == FrameKind::kHandOverEnd ||
         *kind == FrameKind::kStop || *kind == FrameKind::kPing || *kind == FrameKind::kPong;
}

}  // namespace

void run_one(std::span<const std::byte> input) {
  const int accepted =
      is<AttachFrame>(input, FrameKind::kAttach) + is<ResumeFrame>(input, FrameKind::kResume) +
      is<WelcomeFrame>(input, FrameKind::kWelcome) + is<ResumedFrame>(input, FrameKind::kResumed) +
      is<RefusalFrame>(input, FrameKind::kRefusal) + is<HoldFrame>(input, FrameKind::kHold) +
      is<HeldFrame>(input, FrameKind::kHeld) + is<DropFrame>(input, FrameKind::kDrop) +
      is<HelloFrame>(input, FrameKind::kHello) + is<HandOverFrame>(input, FrameKind::kHandOver) +
      is<UpgradeFrame>(input, FrameKind::kUpgrade) + is<LedgerFrame>(input, FrameKind::kLedger) +
      is_bare(input);
  CHECK(accepted <= 1);
  if (const auto kind = frame_kind(input)) {
    const DescriptorRange range = descriptors_of(*kind);
    CHECK(range.least <= range.most && range.most <= 6);
    if (is_bare(input)) CHECK(encode_bare(*kind) == Bytes(input.begin(), input.end()));
  }
}

std::vector<Seed> make_seeds() {
  std::vector<Seed> seeds;
  for (auto& [name, bytes] : sample_frames()) seeds.push_back({name, bytes});
  return seeds;
}

}  // namespace orlop::fuzz
