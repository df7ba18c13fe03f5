// SPDX-License-Identifier: Apache-2.0
// One list of fields per frame (`describe`), walked by a writer and by a reader, so that both sides
// cannot disagree about the layout.
#include "protocol/attach/frames.h"

#include <charconv>
#include <system_error>
#include <type_traits>

#include "base/check.h"
#include "protocol/attach/frame_fields.h"

namespace orlop::protocol {
namespace {

// `F` is const for the writer.
template <class F, class Frame>
concept Of = std::is_same_v<std::remove_const_t<F>, Frame>;

template <class Walk, class S>
void sizes(Walk& w, S& s) {
  w.u32("ledger_cells", s.ledger_cells);
  w.u32("touch_cells", s.touch_cells);
  w.u64("arena_bytes", s.arena_bytes);
  w.u64("plan_bytes", s.plan_bytes);
}

template <Of<AttachFrame> F>
void describe(auto& w, F& f) {
  w.abi(f.abi);
  w.some_u64("nonce", f.nonce);
  sizes(w, f.sizes);
  w.name("name", f.name);
}
template <Of<ResumeFrame> F>
void describe(auto& w, F& f) {
  w.abi(f.abi);
  w.some_u64("nonce", f.nonce);
  w.some_id("segment", f.segment);
  w.some_id("client", f.client);
  w.u32("ring_generation", f.ring_generation);
  w.puts("held", f.held, f.client);
}
template <Of<WelcomeFrame> F>
void describe(auto& w, F& f) {
  w.abi(f.abi);
  w.some_id("segment", f.segment);
  w.some_id("incarnation", f.incarnation);
  w.some_id("client", f.client);
  sizes(w, f.sizes);
  w.u64("control_bytes", f.control_bytes);
  w.u64("value_bytes", f.value_bytes);
}
template <Of<ResumedFrame> F>
void describe(auto& w, F& f) {
  w.some_id("incarnation", f.incarnation);
}
template <Of<RefusalFrame> F>
void describe(auto& w, F& f) {
  w.code("code", f.code);
  w.text("text", f.text, kMaxErrorText);
}
template <Of<HoldFrame> F>
void describe(auto& w, F& f) {
  w.some_u64("nonce", f.nonce);
  w.some_u64("attach", f.attach);
  w.u32("pid", f.pid);
  sizes(w, f.sizes);
  w.name("name", f.name);
}
template <Of<HeldFrame> F>
void describe(auto& w, F& f) {
  w.some_u64("attach", f.attach);
  w.id("client", f.client);
  w.text("text", f.text, kMaxErrorText);
}
template <Of<DropFrame> F>
void describe(auto& w, F& f) {
  w.some_id("client", f.client);
}
template <Of<HelloFrame> F>
void describe(auto& w, F& f) {
  w.some_id("segment", f.segment);
  w.some_id("incarnation", f.incarnation);
  w.flag("cold", f.cold);
  w.flag("admin", f.admin);
  w.u32("channels", f.channels);
  w.u32("restarts", f.restarts);
  w.u32("keeper_pid", f.keeper_pid);
  w.u64("keeper_started", f.keeper_started);
  w.u64("control_bytes", f.control_bytes);
  w.u64("value_bytes", f.value_bytes);
  w.u64("touched_bytes", f.touched_bytes);
  w.u64("huge_bytes", f.huge_bytes);
  w.text("placement", f.placement, kMaxPlacementText);
  w.text("last_end", f.last_end, kMaxServerEndText);
}
template <Of<HandOverFrame> F>
void describe(auto& w, F& f) {
  w.some_id("client", f.client);
  w.some_u64("nonce", f.nonce);
  w.u32("pid", f.pid);
  sizes(w, f.sizes);
  w.name("name", f.name);
}
template <Of<UpgradeFrame> F>
void describe(auto& w, F& f) {
  w.outcome("outcome", f.outcome);
  w.text("from", f.from, kMaxVersionText);
  w.text("to", f.to, kMaxVersionText);
  w.text("reason", f.reason, kMaxUpgradeReason);
  w.u32("refused", f.refused);
  w.u32("succeeded", f.succeeded);
  w.u32("rolled_back", f.rolled_back);
}
template <Of<LedgerFrame> F>
void describe(auto& w, F& f) {
  w.abi(f.abi);
  w.some_id("segment", f.segment);
  w.flag("served", f.served);
  w.u32("next_client", f.next_client);
  w.u32("server", f.server);
  w.u32("restarts", f.restarts);
  w.u64("control_bytes", f.control_bytes);
  w.u64("value_bytes", f.value_bytes);
  w.u64("slab_bytes", f.slab_bytes);
  w.u64("control_inode", f.control_inode);
  w.u64("value_inode", f.value_inode);
  w.u64("touched_bytes", f.touched_bytes);
  w.u64("huge_bytes", f.huge_bytes);
  w.text("placement", f.placement, kMaxPlacementText);
  w.text("made_with", f.made_with, kMaxMadeWithText);
  w.count("clients", f.clients, kMaxClients);
  for (auto& client : f.clients) describe(w, client);
}

template <class Frame>
constexpr FrameKind kKindOf = FrameKind{};  // 0: no kind; write() and decode() refuse it
template <>
constexpr FrameKind kKindOf<AttachFrame> = FrameKind::kAttach;
template <>
constexpr FrameKind kKindOf<ResumeFrame> = FrameKind::kResume;
template <>
constexpr FrameKind kKindOf<WelcomeFrame> = FrameKind::kWelcome;
template <>
constexpr FrameKind kKindOf<ResumedFrame> = FrameKind::kResumed;
template <>
constexpr FrameKind kKindOf<RefusalFrame> = FrameKind::kRefusal;
template <>
constexpr FrameKind kKindOf<HoldFrame> = FrameKind::kHold;
template <>
constexpr FrameKind kKindOf<HeldFrame> = FrameKind::kHeld;
template <>
constexpr FrameKind kKindOf<DropFrame> = FrameKind::kDrop;
template <>
constexpr FrameKind kKindOf<HelloFrame> = FrameKind::kHello;
template <>
constexpr FrameKind kKindOf<HandOverFrame> = FrameKind::kHandOver;
template <>
constexpr FrameKind kKindOf<UpgradeFrame> = FrameKind::kUpgrade;
template <>
constexpr FrameKind kKindOf<LedgerFrame> = FrameKind::kLedger;

template <class Frame>
Bytes write(const Frame& frame) {
  static_assert(kKindOf<Frame> != FrameKind{});
  FrameWriter writer(kKindOf<Frame>);
  describe(writer, frame);
  return writer.take();
}

}  // namespace

Bytes encode(const AttachFrame& frame) {
  return write(frame);
}
Bytes encode(const ResumeFrame& frame) {
  return write(frame);
}
Bytes encode(const WelcomeFrame& frame) {
  return write(frame);
}
Bytes encode(const ResumedFrame& frame) {
  return write(frame);
}
Bytes encode(const RefusalFrame& frame) {
  return write(frame);
}
Bytes encode(const HoldFrame& frame) {
  return write(frame);
}
Bytes encode(const HeldFrame& frame) {
  return write(frame);
}
Bytes encode(const DropFrame& frame) {
  return write(frame);
}
Bytes encode(const HelloFrame& frame) {
  return write(frame);
}
Bytes encode(const HandOverFrame& frame) {
  return write(frame);
}

Bytes encode(const UpgradeFrame& frame) {
  return write(frame);
}
Bytes encode(const LedgerFrame& frame) {
  return write(frame);
}

std::vector<std::pair<int, std::uint64_t>> parse_placement(std::string_view text) {
  std::vector<std::pair<int, std::uint64_t>> out;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    int node = 0;
    std::uint64_t bytes = 0;
    const auto number = std::from_chars(at, end, node);
    if (number.ec != std::errc{} || number.ptr == end || *number.ptr != '=') break;
    const auto size = std::from_chars(number.ptr + 1, end, bytes);
    if (size.ec != std::errc{} || (size.ptr != end && *size.ptr != ' ')) break;
    out.emplace_back(node, bytes);
    at = size.ptr == end ? end : size.ptr + 1;
  }
  return out;
}

std::string_view to_string(UpgradeOutcome outcome) {
  switch (outcome) {
    case UpgradeOutcome::kNone:
      return "none";
    case UpgradeOutcome::kRefused:
      return "refused";
    case UpgradeOutcome::kSucceeded:
      return "succeeded";
    case UpgradeOutcome::kRolledBack:
      return "rolled_back";
  }
  return "unknown";
}

Bytes encode_bare(FrameKind kind) {
  CHECK(is_bare(kind));
  return FrameWriter(kind).take();
}

std::string clean_client_name(std::string_view name) {
  std::string clean(name.substr(0, kMaxClientName));
  for (char& c : clean) {
    if (!printable({&c, 1})) c = '_';
  }
  return clean;
}

template <class Frame>
Result<Frame> decode(std::span<const std::byte> bytes) {
  static_assert(kKindOf<Frame> != FrameKind{});
  FrameReader reader(bytes, kKindOf<Frame>);
  Frame frame;
  describe(reader, frame);
  const auto whole = reader.finish();
  if (!whole) return std::unexpected<Error>(whole.error());
  return frame;
}
template Result<AttachFrame> decode(std::span<const std::byte>);
template Result<ResumeFrame> decode(std::span<const std::byte>);
template Result<WelcomeFrame> decode(std::span<const std::byte>);
template Result<ResumedFrame> decode(std::span<const std::byte>);
template Result<RefusalFrame> decode(std::span<const std::byte>);
template Result<HoldFrame> decode(std::span<const std::byte>);
template Result<HeldFrame> decode(std::span<const std::byte>);
template Result<DropFrame> decode(std::span<const std::byte>);
template Result<HelloFrame> decode(std::span<const std::byte>);
template Result<HandOverFrame> decode(std::span<const std::byte>);
template Result<UpgradeFrame> decode(std::span<const std::byte>);
template Result<LedgerFrame> decode(std::span<const std::byte>);

}  // namespace orlop::protocol
