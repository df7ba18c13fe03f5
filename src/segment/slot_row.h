// SPDX-License-Identifier: Apache-2.0
// One row of the slot table: 64 bytes, one cache line, written only by the node.
//
// Every field is read by clients while the node may be rewriting the row for its next generation;
// so all fields are relaxed atomics, and what was read counts only after the word was re-read
// (pin.h). Fields other than the word and `checksum`/`fields_sum` are fixed at Prepared; these two
// at commit, before the word.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "segment/atomics.h"
#include "segment/slot_word.h"

namespace orlop::segment {

// Where a slot stands in its writer's groups and in the prefix tree.
struct GroupPlace {
  std::uint16_t index = 0;         // of this member inside its group
  std::uint16_t length = 1;        // members of the group
  std::uint16_t group_number = 0;  // of the group inside its put; group = (put_id, group_number)
  std::uint16_t parent_generation = 0;  // low half of the parent slot's generation
  SlotId parent;                        // slot of the key before the group's first key; 0 = root

  constexpr bool operator==(const GroupPlace&) const = default;
};

// The fields that are fixed at Prepared.
struct SlotFields {
  KeyId key;
  std::uint32_t value_len = 0;  // bytes
  NamespaceIndex ns;
  GroupPlace group;
  PutId put;

  constexpr bool operator==(const SlotFields&) const = default;
};

struct alignas(64) SlotRow {
  Atomic<std::uint64_t> word;
  Atomic<std::uint64_t> key_lo;
  Atomic<std::uint64_t> key_hi;
  Atomic<std::uint64_t> len_and_ns;  // value_len | ns << 32
  Atomic<std::uint64_t> group;       // index | length << 16 | group_number << 32 | parent gen << 48
  Atomic<std::uint64_t> parent_and_sum;  // parent slot | fields_sum << 32
  Atomic<std::uint64_t> put;
  Atomic<std::uint64_t> checksum;

  SlotWord load_word(std::memory_order order = std::memory_order_acquire) const {
    return SlotWord::unpack(word.load(order));
  }
  // The only store that changes what others may do with the slot. Release: partner of load_word.
  void store_word(SlotWord w) { word.store(w.pack(), std::memory_order_release); }

  KeyId load_key() const {
    return KeyId{key_lo.load(std::memory_order_relaxed), key_hi.load(std::memory_order_relaxed)};
  }
  std::uint32_t load_value_len() const {
    return static_cast<std::uint32_t>(len_and_ns.load(std::memory_order_relaxed));
  }
  NamespaceIndex load_ns() const {
    return NamespaceIndex{
        static_cast<std::uint32_t>(len_and_ns.load(std::memory_order_relaxed) >> 32)};
  }
  bool has_identity(const KeyId& key, NamespaceIndex ns) const {
    return load_key() == key && load_ns() == ns;
  }
  PutId load_put() const { return PutId{put.load(std::memory_order_relaxed)}; }
  std::uint64_t load_checksum() const { return checksum.load(std::memory_order_relaxed); }
  std::uint32_t load_fields_sum() const {
    return static_cast<std::uint32_t>(parent_and_sum.load(std::memory_order_relaxed) >> 32);
  }

  SlotFields load_fields() const;
  // Node only, while the slot is Free; leaves checksum and fields_sum 0.
  void store_fields(const SlotFields& fields);
  // Node only, at commit, before the word becomes readable.
  void store_checksums(std::uint64_t value_checksum, std::uint32_t fields_sum);
};
static_assert(sizeof(SlotRow) == 64);

// 32-bit checksum over the fields, the value checksum and the generation, so that recovery can
// tell a torn row from a whole one.
std::uint32_t fields_sum(const SlotFields& fields, std::uint64_t value_checksum, Generation gen);

}  // namespace orlop::segment
