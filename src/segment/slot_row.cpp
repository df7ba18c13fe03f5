// SPDX-License-Identifier: Apache-2.0
#include "segment/slot_row.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace orlop::segment {
namespace {

std::uint64_t pack_len_and_ns(const SlotFields& f) {
  return f.value_len | (std::uint64_t{f.ns.value} << 32);
}

std::uint64_t pack_group(const GroupPlace& g) {
  return g.index | (std::uint64_t{g.length} << 16) | (std::uint64_t{g.group_number} << 32) |
         (std::uint64_t{g.parent_generation} << 48);
}

}  // namespace

SlotFields SlotRow::load_fields() const {
  SlotFields f;
  f.key = load_key();
  f.value_len = load_value_len();
  f.ns = load_ns();
  const std::uint64_t g = group.load(std::memory_order_relaxed);
  f.group.index = static_cast<std::uint16_t>(g);
  f.group.length = static_cast<std::uint16_t>(g >> 16);
  f.group.group_number = static_cast<std::uint16_t>(g >> 32);
  f.group.parent_generation = static_cast<std::uint16_t>(g >> 48);
  f.group.parent =
      SlotId{static_cast<std::uint32_t>(parent_and_sum.load(std::memory_order_relaxed))};
  f.put = load_put();
  return f;
}

void SlotRow::store_fields(const SlotFields& fields) {
  key_lo.store(fields.key.lo, std::memory_order_relaxed);
  key_hi.store(fields.key.hi, std::memory_order_relaxed);
  len_and_ns.store(pack_len_and_ns(fields), std::memory_order_relaxed);
  group.store(pack_group(fields.group), std::memory_order_relaxed);
  parent_and_sum.store(fields.group.parent.value, std::memory_order_relaxed);
  put.store(fields.put.value, std::memory_order_relaxed);
  checksum.store(0, std::memory_order_relaxed);
}

void SlotRow::store_checksums(std::uint64_t value_checksum, std::uint32_t fields_sum) {
  const std::uint64_t parent = parent_and_sum.load(std::memory_order_relaxed) & 0xffffffffU;
  checksum.store(value_checksum, std::memory_order_relaxed);
  parent_and_sum.store(parent | (std::uint64_t{fields_sum} << 32), std::memory_order_relaxed);
}

std::uint32_t fields_sum(const SlotFields& fields, std::uint64_t value_checksum, Generation gen) {
  const std::uint64_t words[8] = {fields.key.lo,
                                  fields.key.hi,
                                  pack_len_and_ns(fields),
                                  pack_group(fields.group),
                                  fields.group.parent.value | (std::uint64_t{gen.value} << 32),
                                  fields.put.value,
                                  value_checksum,
                                  0};
  return static_cast<std::uint32_t>(XXH3_64bits(words, sizeof(words)));
}

}  // namespace orlop::segment
