// SPDX-License-Identifier: Apache-2.0
// Distinct types for everything that is "just a number". No implicit conversions.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace orlop {

template <class Tag, class T>
struct Id {
  T value{};
  constexpr Id() = default;
  constexpr explicit Id(T v) : value(v) {}
  constexpr auto operator<=>(const Id&) const = default;
  constexpr explicit operator bool() const { return value != 0; }
};

using SlotId = Id<struct SlotIdTag, std::uint32_t>;          // 0 = none
using Generation = Id<struct GenerationTag, std::uint32_t>;  // grows at every reuse of a slot
using SlabId = Id<struct SlabIdTag, std::uint32_t>;          // 0-based
using ClientId = Id<struct ClientIdTag, std::uint32_t>;      // issued by the keeper; 0 = none
using PutId = Id<struct PutIdTag, std::uint64_t>;            // client id and its own sequence
using NamespaceIndex = Id<struct NamespaceIndexTag, std::uint32_t>;  // changes at flush; 0 = none
using NamespaceRow = Id<struct NamespaceRowTag, std::uint32_t>;      // row of the namespace table
using RequestId = Id<struct RequestIdTag, std::uint64_t>;            // per client, never reused
using SegmentId = Id<struct SegmentIdTag, std::uint64_t>;      // identity of the memory contents
using Incarnation = Id<struct IncarnationTag, std::uint64_t>;  // identity of a daemon life

// 24 bits of client, 40 of sequence: 16 million attaches in a segment's life, and 10^12 puts in an
// attach's (at 100,000 a second four months). Neither is ever reused.
inline constexpr unsigned kPutSequenceBits = 40;
inline constexpr std::uint64_t kMaxPutSequence = (std::uint64_t{1} << kPutSequenceBits) - 1;
inline constexpr std::uint32_t kMaxClientId = (std::uint32_t{1} << (64 - kPutSequenceBits)) - 1;
constexpr PutId make_put_id(ClientId client, std::uint64_t sequence) {
  return PutId{(std::uint64_t{client.value} << kPutSequenceBits) | sequence};
}
constexpr ClientId owner_of(PutId put) {
  return ClientId{static_cast<std::uint32_t>(put.value >> kPutSequenceBits)};
}

// 128 bits derived from an engine's page key and its namespace's family. Identity of a value is
// (KeyId, NamespaceIndex), everywhere.
struct KeyId {
  std::uint64_t lo = 0;
  std::uint64_t hi = 0;
  constexpr auto operator<=>(const KeyId&) const = default;
};

// Monotonic time in nanoseconds. Pure code gets it as an argument; only drivers read a clock.
using MonoNs = std::uint64_t;
inline constexpr MonoNs kNsPerUs = 1'000;
inline constexpr MonoNs kNsPerMs = 1'000'000;
inline constexpr MonoNs kNsPerSecond = 1'000'000'000;
inline constexpr MonoNs kNever = ~MonoNs{0};

}  // namespace orlop

template <class Tag, class T>
struct std::hash<orlop::Id<Tag, T>> {
  std::size_t operator()(const orlop::Id<Tag, T>& id) const noexcept {
    return std::hash<T>{}(id.value);
  }
};
