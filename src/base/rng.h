// SPDX-License-Identifier: Apache-2.0
// Deterministic random numbers: the same seed gives the same sequence on every machine and
// compiler. Used by the simulator, the workloads and the eviction policies; never for secrets.
//
// Algorithms: splitmix64 (Steele, Lea, Flood 2014) spreads the seed, xoshiro256** 1.0 (Blackman,
// Vigna 2018) generates. Thread: none.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/check.h"

namespace orlop {

// One step of splitmix64: advances `state`, returns a well-mixed word. Also a fine 64-bit mixer.
constexpr std::uint64_t splitmix64(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

class Rng {
 public:
  using result_type = std::uint64_t;  // satisfies std::uniform_random_bit_generator

  constexpr explicit Rng(std::uint64_t seed) {
    for (std::uint64_t& word : state_) word = splitmix64(seed);
  }

  constexpr std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform in [0, n), without bias. Requires n > 0.
  constexpr std::uint64_t uniform(std::uint64_t n) {
    CHECK(n > 0);
    // Words below 2^64 mod n would favour the small results; they are drawn again (at most every
    // second word, usually none).
    const std::uint64_t rejected_below = (0 - n) % n;
    std::uint64_t word = next();
    while (word < rejected_below) word = next();
    return word % n;
  }
  // Uniform in [low, high], both included.
  constexpr std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    CHECK(low <= high);
    const std::uint64_t span = high - low;
    return span == ~std::uint64_t{0} ? next() : low + uniform(span + 1);
  }
  // Uniform in [0, 1), 53 bits.
  constexpr double real() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  // True with the given probability; 0 never, 1 always.
  constexpr bool chance(double probability) { return real() < probability; }

  // An independent generator: give each subsystem its own, so that a draw more in one does not
  // shift the others.
  constexpr Rng fork() { return Rng(next()); }

  static constexpr std::uint64_t min() { return 0; }
  static constexpr std::uint64_t max() { return ~std::uint64_t{0}; }
  constexpr std::uint64_t operator()() { return next(); }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace orlop
