// SPDX-License-Identifier: Apache-2.0
// One list of fields per frame (`describe`), walked by a writer and by a reader, so that both sides
// cannot disagree about the layout.
#include "protocol/attach/frames.h"

#include <charconv>
#include <cstring>
#include <system_error>
#include <type_traits>

#include "base/check.h"

namespace orlop::protocol {
namespace {

// No C++ type of its own in the enum: names for messages only.
std::string_view name_of(FrameKind kind) {
  switch (kind) {
    case FrameKind::kAttach:
      return "attach";
    case FrameKind::kResume:
      return "resume";
    case FrameKind::kWelcome:
      return "welcome";
    case FrameKind::kResumed:
      return "resumed";
    case FrameKind::kRefusal:
      return "refusal";
    case FrameKind::kHold:
      return "hold";
    case FrameKind::kDrop:
      return "drop";
    case FrameKind::kServing:
      return "serving";
    case FrameKind::kHello:
      return "hello";
    case FrameKind::kHandOver:
      return "hand_over";
    case FrameKind::kHandOverEnd:
      return "hand_over_end";
    case FrameKind::kHeld:
      return "held";
    case FrameKind::kStop:
      return "stop";
    case FrameKind::kPing:
      return "ping";
    case FrameKind::kPong:
      return "pong";
    case FrameKind::kUpgrade:
      return "upgrade";
    case FrameKind::kLedger:
      return "ledger";
  }
  return {};
}

bool is_bare(FrameKind kind) {
  return kind == FrameKind::kServing || kind == FrameKind::kHandOverEnd ||
         kind == FrameKind::kStop || kind == FrameKind::kPing || kind == FrameKind::kPong;
}

bool printable(std::string_view text) {
  for (const char c : text) {
    if (c < 0x20 || c > 0x7e) return false;
  }
  return true;
}

class Writer {
 public:
  explicit Writer(FrameKind kind) {
    u32("magic", kFrameMagic);
    u32("kind", static_cast<std::uint32_t>(kind));
  }
  void u32(const char*, std::uint32_t v) { append(&v, sizeof v); }
  void u64(const char*, std::uint64_t v) { append(&v, sizeof v); }
  void abi(std::uint32_t v) { u32("abi", v); }
  void flag(const char* field, bool v) { u32(field, v ? 1 : 0); }
  void code(const char* field, ErrorCode v) { u32(field, static_cast<std::uint32_t>(v)); }
  template <class Tag, class T>
  void id(const char*, const Id<Tag, T>& v) {
    append(&v.value, sizeof v.value);
  }
  template <class Tag, class T>
  void some_id(const char* field, const Id<Tag, T>& v) {
    CHECK(v.value != 0, field);
    id(field, v);
  }
  void some_u64(const char* field, std::uint64_t v) {
    CHECK(v != 0, field);
    u64(field, v);
  }
  void name(const char* field, const std::string& v) {
    CHECK(v.size() <= kMaxClientName && printable(v), field);
    text(field, v, kMaxClientName);
  }
  // Texts for people are cut, not refused: a long path in a message must not cost the message.
  void text(const char* field, const std::string& v, std::size_t limit) {
    const std::size_t bytes = v.size() < limit ? v.size() : limit;
    u32(field, static_cast<std::uint32_t>(bytes));
    append(v.data(), bytes);
  }
  void outcome(const char* field, UpgradeOutcome v) { u32(field, static_cast<std::uint32_t>(v)); }
  template <class T>
  void count(const char* field, const std::vector<T>& v, std::size_t limit) {
    CHECK(v.size() <= limit, field);
    u32(field, static_cast<std::uint32_t>(v.size()));
  }
  void puts(const char* field, const std::vector<PutId>& v, ClientId) {
    CHECK(v.size() <= kMaxHeldPuts, field);
    u32(field, static_cast<std::uint32_t>(v.size()));
    for (const PutId put : v) id(field, put);
  }
  Bytes take() {
    CHECK(bytes_.size() <= kMaxFrameBytes);
    return std::move(bytes_);
  }

 private:
  void append(const void* data, std::size_t bytes) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + bytes);
    if (bytes != 0) std::memcpy(bytes_.data() + at, data, bytes);
  }
  Bytes bytes_;
};

// Keeps the first error; after it every read gives zeroes, so `describe` needs no checks.
class Reader {
 public:
  Reader(std::span<const std::byte> frame, FrameKind kind) : rest_(frame), kind_(kind) {
    const auto found = frame_kind(frame);
    if (!found) {
      error_ = found.error();
    } else if (*found != kind) {
      refuse("kind", "is " + std::string(name_of(*found)));
    } else {
      rest_ = frame.subspan(8);
    }
  }
  void u32(const char* field, std::uint32_t& v) { read(field, &v, sizeof v); }
  void u64(const char* field, std::uint64_t& v) { read(field, &v, sizeof v); }
  void abi(std::uint32_t& v) {
    u32("abi", v);
    if (!error_.message.empty() || v == segment::kAbiVersion) return;
    error_ = {ErrorCode::kAbiMismatch, std::string(name_of(kind_)) + " frame of ABI version " +
                                           std::to_string(v) + ", this side speaks version " +
                                           std::to_string(segment::kAbiVersion)};
  }
  void flag(const char* field, bool& v) {
    std::uint32_t raw = 0;
    u32(field, raw);
    if (raw > 1) refuse(field, "is " + std::to_string(raw) + ", not 0 or 1");
    v = raw == 1;
  }
  void code(const char* field, ErrorCode& v) {
    std::uint32_t raw = 0;
    u32(field, raw);
    const auto last = static_cast<std::uint32_t>(ErrorCode::kClosed);
    if (raw == 0 || raw > last) refuse(field, "is no error code: " + std::to_string(raw));
    v = static_cast<ErrorCode>(raw);
  }
  template <class Tag, class T>
  void id(const char* field, Id<Tag, T>& v) {
    read(field, &v.value, sizeof v.value);
  }
  template <class Tag, class T>
  void some_id(const char* field, Id<Tag, T>& v) {
    id(field, v);
    if (v.value == 0) refuse(field, "is 0");
  }
  void some_u64(const char* field, std::uint64_t& v) {
    u64(field, v);
    if (v == 0) refuse(field, "is 0");
  }
  void name(const char* field, std::string& v) {
    text(field, v, kMaxClientName);
    if (!printable(v)) refuse(field, "has other than printable ASCII characters");
  }
  void text(const char* field, std::string& v, std::size_t limit) {
    std::uint32_t bytes = 0;
    u32(field, bytes);
    if (bytes > limit) {
      refuse(field, "is " + std::to_string(bytes) + " bytes long, at most " +
                        std::to_string(limit) + " are allowed");
    } else if (bytes > rest_.size()) {
      refuse(field, "ends after the frame");
    } else if (error_.message.empty()) {
      v.assign(reinterpret_cast<const char*>(rest_.data()), bytes);
      rest_ = rest_.subspan(bytes);
    }
  }
  void outcome(const char* field, UpgradeOutcome& v) {
    std::uint32_t raw = 0;
    u32(field, raw);
    if (raw > static_cast<std::uint32_t>(UpgradeOutcome::kRolledBack))
      refuse(field, "is no outcome: " + std::to_string(raw));
    v = static_cast<UpgradeOutcome>(raw);
  }
  template <class T>
  void count(const char* field, std::vector<T>& v, std::size_t limit) {
    std::uint32_t entries = 0;
    u32(field, entries);
    if (entries > limit) {
      refuse(field, "has " + std::to_string(entries) + " entries, at most " +
                        std::to_string(limit) + " are allowed");
    }
    v.clear();
    if (error_.message.empty()) v.resize(entries);
  }
  void puts(const char* field, std::vector<PutId>& v, ClientId owner) {
    std::uint32_t count = 0;
    u32(field, count);
    if (count > kMaxHeldPuts) {
      refuse(field, "has " + std::to_string(count) + " entries, at most " +
                        std::to_string(kMaxHeldPuts) + " are allowed");
    } else if (rest_.size() < std::size_t{count} * sizeof(PutId)) {
      refuse(field, "ends after the frame");
    }
    if (!error_.message.empty()) return;
    v.resize(count);
    for (PutId& put : v) {
      id(field, put);
      if (owner_of(put) != owner) refuse(field, "names a put of another client");
    }
  }
  Result<void> finish() {
    if (error_.message.empty() && !rest_.empty()) {
      refuse("length", std::to_string(rest_.size()) + " bytes too many");
    }
    if (!error_.message.empty()) return std::unexpected<Error>(std::move(error_));
    return {};
  }

 private:
  void read(const char* field, void* out, std::size_t bytes) {
    if (!error_.message.empty()) return;
    if (rest_.size() < bytes) return refuse(field, "ends after the frame");
    std::memcpy(out, rest_.data(), bytes);
    rest_ = rest_.subspan(bytes);
  }
  void refuse(const char* field, const std::string& why) {
    if (!error_.message.empty()) return;
    error_ = {ErrorCode::kInvalidArgument,
              std::string(name_of(kind_)) + " frame: " + field + " " + why};
    rest_ = {};
  }

  std::span<const std::byte> rest_;
  FrameKind kind_;
  Error error_{ErrorCode::kInvalidArgument, {}};
};

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
  Writer writer(kKindOf<Frame>);
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
  return Writer(kind).take();
}

std::string clean_client_name(std::string_view name) {
  std::string clean(name.substr(0, kMaxClientName));
  for (char& c : clean) {
    if (!printable({&c, 1})) c = '_';
  }
  return clean;
}

Result<FrameKind> frame_kind(std::span<const std::byte> frame) {
  std::uint32_t words[2] = {0, 0};
  if (frame.size() < sizeof words) {
    return fail(ErrorCode::kInvalidArgument,
                "frame: length is " + std::to_string(frame.size()) + " bytes, 8 are the least");
  }
  if (frame.size() > kMaxFrameBytes) {
    return fail(ErrorCode::kInvalidArgument, "frame: length is " + std::to_string(frame.size()) +
                                                 " bytes, " + std::to_string(kMaxFrameBytes) +
                                                 " are the most");
  }
  std::memcpy(words, frame.data(), sizeof words);
  if (words[0] != kFrameMagic) {
    return fail(ErrorCode::kInvalidArgument, "frame: magic is not \"ORLF\": not an Orlop peer");
  }
  const auto kind = static_cast<FrameKind>(words[1]);
  if (name_of(kind).empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "frame: kind " + std::to_string(words[1]) + " is unknown");
  }
  if (is_bare(kind) && frame.size() != sizeof words) {
    return fail(ErrorCode::kInvalidArgument, std::string(name_of(kind)) + " frame: length " +
                                                 std::to_string(frame.size() - sizeof words) +
                                                 " bytes too many");
  }
  return kind;
}

template <class Frame>
Result<Frame> decode(std::span<const std::byte> bytes) {
  static_assert(kKindOf<Frame> != FrameKind{});
  Reader reader(bytes, kKindOf<Frame>);
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

DescriptorRange descriptors_of(FrameKind kind) {
  switch (kind) {
    case FrameKind::kAttach:
    case FrameKind::kResume:
      return {1, 1};
    case FrameKind::kWelcome:
      return {6, 6};
    case FrameKind::kHold:
    case FrameKind::kHandOver:
      return {5, 5};
    case FrameKind::kHello:
      return {3, 4};
    case FrameKind::kHeld:
      return {0, 1};
    case FrameKind::kResumed:
    case FrameKind::kRefusal:
    case FrameKind::kDrop:
    case FrameKind::kServing:
    case FrameKind::kHandOverEnd:
    case FrameKind::kStop:
    case FrameKind::kPing:
    case FrameKind::kPong:
    case FrameKind::kUpgrade:
    case FrameKind::kLedger:
      return {0, 0};
  }
  return {0, 0};
}

}  // namespace orlop::protocol
