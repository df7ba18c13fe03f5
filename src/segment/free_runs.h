// SPDX-License-Identifier: Apache-2.0
// The free slots of one slab as runs of adjacent ordinals: one bit a slot, and above the words of
// 64 bits a tree that knows the longest run below each node. Find, take and give back cost
// O(log words), whatever the fragmentation; memory is 1 bit + 3/8 byte a slot.
//
// Slots come back one by one but mostly side by side, so give_back() leaves the tree to settle(),
// which the next search needs; runs that grow into each other then cost one update.
//
// Thread: the node's one. Allocates at construction only.
#pragma once

#include <cstdint>
#include <vector>

namespace orlop::segment {

class FreeRuns {
 public:
  FreeRuns() = default;
  explicit FreeRuns(std::uint32_t slots);  // all free; slots > 0

  std::uint32_t slots() const { return slots_; }
  std::uint32_t free() const { return free_; }
  std::uint32_t longest() const { return nodes_[1].longest; }  // as of the last settle()
  bool is_free(std::uint32_t ordinal) const { return (bits_[ordinal / 64] >> (ordinal % 64)) & 1; }
  // First ordinal of the leftmost run of at least `length`. Requires 1 <= length <= longest(), and
  // settle() after the last give_back().
  std::uint32_t find(std::uint32_t length) const;
  // Requires [first, first + count) to be free / the ordinal not to be.
  void take(std::uint32_t first, std::uint32_t count);
  void give_back(std::uint32_t ordinal);
  void settle();

 private:
  struct Node {
    std::uint32_t prefix = 0, suffix = 0, longest = 0;  // runs at the left end, right end, anywhere
    bool operator==(const Node&) const = default;
  };
  static Node leaf(std::uint64_t bits);
  static Node join(const Node& left, const Node& right, std::uint32_t half);
  void update(std::uint32_t first_word, std::uint32_t last_word);

  std::uint32_t slots_ = 0;
  std::uint32_t free_ = 0;
  std::uint32_t unsettled_first_ = 1, unsettled_last_ = 0;  // words; first > last: none
  std::uint32_t leaves_ = 0;                                // power of two >= words
  std::vector<std::uint64_t> bits_;                         // 1 = free
  std::vector<Node> nodes_;  // 1 = root; children of i: 2i, 2i + 1; leaves from leaves_
};

}  // namespace orlop::segment
