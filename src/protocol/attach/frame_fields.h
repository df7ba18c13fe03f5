// SPDX-License-Identifier: Apache-2.0
// Internal to room attach: one field of a frame after the other, written and read by calls of the
// same names, so that one list of fields serves both (frames.cpp).
//
// A writer requires what a reader refuses (CHECK): a field that must not be 0, a list within its
// limit, a name of printable characters. Thread: an object is one thread's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "protocol/attach/frame_kinds.h"
#include "protocol/attach/frames.h"

namespace orlop::protocol {

inline bool printable(std::string_view text) {
  for (const char c : text) {
    if (c < 0x20 || c > 0x7e) return false;
  }
  return true;
}

class FrameWriter {
 public:
  explicit FrameWriter(FrameKind kind) {
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

// Keeps the first error, which names frame and field; after it every read gives zeroes, so that a
// list of fields needs no checks. Reads nothing outside of the frame.
class FrameReader {
 public:
  FrameReader(std::span<const std::byte> frame, FrameKind kind) : rest_(frame), kind_(kind) {
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

}  // namespace orlop::protocol
