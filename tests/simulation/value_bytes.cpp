// SPDX-License-Identifier: Apache-2.0
#include "value_bytes.h"

#include <algorithm>
#include <cstring>

#include "base/rng.h"

namespace orlop::simulation {
namespace {

std::uint64_t seed_of(const ValueIdentity& identity) {
  std::uint64_t state = identity.key.lo ^ (std::uint64_t{identity.ns} << 56);
  splitmix64(state);
  return state ^ identity.key.hi;
}

std::uint64_t word_at(std::uint64_t seed, std::size_t offset) {
  return (seed + offset) * 0x9e3779b97f4a7c15;
}

}  // namespace

void write_value(const ValueIdentity& identity, std::span<std::byte> value, std::size_t from,
                 std::size_t to) {
  const std::uint64_t seed = seed_of(identity);
  for (std::size_t at = from; at < to; at += 8) {
    const std::uint64_t word = word_at(seed, at);
    std::memcpy(value.data() + at, &word, std::min<std::size_t>(8, to - at));
  }
}

bool value_is_right(const ValueIdentity& identity, std::span<const std::byte> value,
                    std::size_t from, std::size_t to) {
  const std::uint64_t seed = seed_of(identity);
  for (std::size_t at = from; at < to; at += 8) {
    const std::uint64_t word = word_at(seed, at);
    if (std::memcmp(value.data() + at, &word, std::min<std::size_t>(8, to - at)) != 0) return false;
  }
  return true;
}

std::uint64_t value_checksum(const ValueIdentity& identity, std::span<const std::byte> value) {
  std::uint64_t sum = seed_of(identity) ^ value.size();
  for (std::size_t at = 0; at < value.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, value.data() + at, std::min<std::size_t>(8, value.size() - at));
    sum = (sum ^ word) * 0xff51afd7ed558ccd;
    sum ^= sum >> 32;
  }
  return sum;
}

}  // namespace orlop::simulation
