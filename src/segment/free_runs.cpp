// SPDX-License-Identifier: Apache-2.0
#include "segment/free_runs.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"

namespace orlop::segment {
namespace {

constexpr std::uint32_t kWordBits = 64;

// starts[k]: bits at which a run of at least 2^k ones begins.
std::array<std::uint64_t, 6> runs_of_powers(std::uint64_t bits) {
  std::array<std::uint64_t, 6> starts{bits};
  for (unsigned k = 1; k < 6; ++k) {
    const unsigned half = 1U << (k - 1);
    starts[k] = starts[k - 1] & (starts[k - 1] >> half);
  }
  return starts;
}

std::uint32_t longest_run(std::uint64_t bits) {
  if (bits == ~std::uint64_t{0}) return kWordBits;
  const auto starts = runs_of_powers(bits);
  std::uint64_t here = ~std::uint64_t{0};
  std::uint32_t length = 0;
  for (int k = 5; k >= 0; --k) {
    const std::uint64_t longer = here & (starts[static_cast<unsigned>(k)] >> length);
    if (longer == 0) continue;
    here = longer;
    length += 1U << k;
  }
  return length;
}

// Lowest bit at which a run of at least `length` begins; there is one.
std::uint32_t first_run(std::uint64_t bits, std::uint32_t length) {
  if (length == kWordBits) return 0;
  const auto starts = runs_of_powers(bits);
  std::uint64_t here = ~std::uint64_t{0};
  std::uint32_t done = 0;
  for (unsigned k = 0; k < 6; ++k) {
    if ((length >> k & 1) == 0) continue;
    here &= starts[k] >> done;
    done += 1U << k;
  }
  return static_cast<std::uint32_t>(std::countr_zero(here));
}

// `count` ones from bit `first`; first + count <= 64.
std::uint64_t ones(std::uint32_t first, std::uint32_t count) {
  const std::uint64_t low =
      count == kWordBits ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
  return low << first;
}

}  // namespace

FreeRuns::FreeRuns(std::uint32_t slots) : slots_(slots), free_(slots) {
  CHECK(slots > 0);
  const std::uint32_t words = (slots + kWordBits - 1) / kWordBits;
  leaves_ = std::bit_ceil(words);
  bits_.assign(words, ~std::uint64_t{0});
  if (slots % kWordBits != 0) bits_.back() = ones(0, slots % kWordBits);
  nodes_.resize(std::size_t{2} * leaves_);
  update(0, words - 1);
}

FreeRuns::Node FreeRuns::leaf(std::uint64_t bits) {
  return {static_cast<std::uint32_t>(std::countr_one(bits)),
          static_cast<std::uint32_t>(std::countl_one(bits)), longest_run(bits)};
}

FreeRuns::Node FreeRuns::join(const Node& left, const Node& right, std::uint32_t half) {
  return {left.prefix == half ? half + right.prefix : left.prefix,
          right.suffix == half ? half + left.suffix : right.suffix,
          std::max({left.longest, right.longest, left.suffix + right.prefix})};
}

// Brings the tree above the words [first_word, last_word] up to date; stops where nothing changed.
void FreeRuns::update(std::uint32_t first_word, std::uint32_t last_word) {
  std::uint32_t first = leaves_ + first_word, last = leaves_ + last_word;
  bool changed = false;
  for (std::uint32_t n = first; n <= last; ++n) {
    const Node node = leaf(bits_[n - leaves_]);
    changed |= !(node == nodes_[n]);
    nodes_[n] = node;
  }
  for (std::uint32_t half = kWordBits; changed && first > 1; half *= 2) {
    first /= 2;
    last /= 2;
    changed = false;
    for (std::uint32_t n = first; n <= last; ++n) {
      const Node node = join(nodes_[2 * n], nodes_[2 * n + 1], half);
      changed |= !(node == nodes_[n]);
      nodes_[n] = node;
    }
  }
}

std::uint32_t FreeRuns::find(std::uint32_t length) const {
  DCHECK(length > 0 && length <= longest());
  std::uint32_t node = 1, start = 0, half = leaves_ * kWordBits / 2;
  while (node < leaves_) {
    const Node& left = nodes_[2 * node];
    if (left.longest >= length) {
      node = 2 * node;
    } else if (left.suffix + nodes_[2 * node + 1].prefix >= length) {
      return start + half - left.suffix;
    } else {
      node = 2 * node + 1;
      start += half;
    }
    half /= 2;
  }
  return start + first_run(bits_[node - leaves_], length);
}

void FreeRuns::take(std::uint32_t first, std::uint32_t count) {
  CHECK(count > 0 && first < slots_ && count <= slots_ - first);
  settle();
  const std::uint32_t first_word = first / kWordBits;
  const std::uint32_t last_word = (first + count - 1) / kWordBits;
  std::uint32_t bit = first % kWordBits, left = count;
  for (std::uint32_t w = first_word; w <= last_word; ++w) {
    const std::uint32_t here = std::min(left, kWordBits - bit);
    const std::uint64_t mask = ones(bit, here);
    CHECK((bits_[w] & mask) == mask, "slot taken twice");
    bits_[w] &= ~mask;
    left -= here;
    bit = 0;
  }
  free_ -= count;
  update(first_word, last_word);
}

void FreeRuns::give_back(std::uint32_t ordinal) {
  CHECK(ordinal < slots_ && !is_free(ordinal), "slot freed twice");
  const std::uint32_t word = ordinal / kWordBits;
  bits_[word] |= std::uint64_t{1} << (ordinal % kWordBits);
  ++free_;
  const bool none = unsettled_first_ > unsettled_last_;
  if (!none && word + 1 >= unsettled_first_ && word <= unsettled_last_ + 1) {
    unsettled_first_ = std::min(unsettled_first_, word);
    unsettled_last_ = std::max(unsettled_last_, word);
    return;
  }
  settle();
  unsettled_first_ = unsettled_last_ = word;
}

void FreeRuns::settle() {
  if (unsettled_first_ > unsettled_last_) return;
  update(unsettled_first_, unsettled_last_);
  unsettled_first_ = 1;
  unsettled_last_ = 0;
}

}  // namespace orlop::segment
