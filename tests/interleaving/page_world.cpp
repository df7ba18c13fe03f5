// SPDX-License-Identifier: Apache-2.0
#include "page_world.h"

#include "base/check.h"
#include "segment/key_index.h"

namespace orlop::interleaving {
namespace {

std::string field_of(const segment::SlotRow& row, const void* address) {
  const std::size_t word = static_cast<std::size_t>(static_cast<const std::byte*>(address) -
                                                    reinterpret_cast<const std::byte*>(&row)) /
                           8;
  static constexpr const char* kNames[8] = {"word",  "key_lo", "key_hi", "len_and_ns",
                                            "group", "parent", "put",    "checksum"};
  return kNames[word];
}

bool inside(const void* address, const void* begin, std::uint64_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto from = reinterpret_cast<std::uintptr_t>(begin);
  return at >= from && at < from + bytes;
}

std::uint64_t offset_in(const void* address, const void* begin) {
  return reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(begin);
}

}  // namespace

ClientChannel::ClientChannel(std::uint32_t ledger_cells)
    : sizes_{ledger_cells, segment::kMinTouchCells, segment::kMinPartBytes, segment::kMinPartBytes},
      geometry_(segment::make_channel_geometry(sizes_).value()),
      memory_(geometry_.total_bytes),
      view_(segment::ChannelView::format(memory_.span(), geometry_, sizes_, ClientId{1})) {}

std::string ClientChannel::name_of(const void* address) const {
  const segment::ChannelView& v = view_;
  if (inside(address, v.bitmap(), std::uint64_t{v.bitmap_words()} * 8)) return "chunk bits";
  if (inside(address, v.cells(),
             std::uint64_t{geometry_.ledger_chunks} * segment::kCellsPerChunk * 8))
    return "cell " + std::to_string(offset_in(address, v.cells()) / 8);
  if (inside(address, v.touches(), std::uint64_t{geometry_.touch_cells} * 4))
    return "touch " + std::to_string(offset_in(address, v.touches()) / 4);
  if (inside(address, &v.header(), kPageBytes))
    return "channel header + " + std::to_string(offset_in(address, &v.header()));
  return {};
}

PageWorld::PageWorld(std::uint32_t slots)
    : slots_(slots),
      geometry_(segment::make_geometry(std::uint64_t{slots} * segment::kMinSlotBytes,
                                       segment::kMinSlotBytes)
                    .value()),
      memory_(geometry_.control_bytes),
      area_(segment::ControlArea::format(memory_.span(), geometry_, SegmentId{77})),
      pages_(slots + 1) {
  CHECK(geometry_.slab_count == slots && geometry_.ordinals_per_slab == 1);
  for (std::uint32_t s = 0; s < slots; ++s) area_.slab(SlabId{s}).slot_pages.store(1);
}

std::string PageWorld::name_of(const void* address) const {
  for (std::uint32_t s = 1; s <= slots_; ++s) {
    const segment::SlotRow& row = area_.slot(SlotId{s});
    if (inside(address, &row, sizeof(row)))
      return "slot " + std::to_string(s) + " " + field_of(row, address);
    if (address == &pages_[s]) return "page " + std::to_string(s);
  }
  for (unsigned place = 0; place < 2; ++place) {
    const segment::IndexBucket* buckets = area_.index_place(place);
    if (!inside(address, buckets, geometry_.index_place_bytes)) continue;
    const std::uint64_t word = offset_in(address, buckets) / 8;
    return "place " + std::to_string(place) + " bucket " + std::to_string(word / 8) +
           (word % 8 == 7 ? " overflowed" : " entry " + std::to_string(word % 8));
  }
  if (address == &area_.header().index_word) return "index word";
  return {};
}

KeyId key_in_bucket(std::uint32_t bucket, std::uint32_t number) {
  // index_hash(): the home bucket is the low half of lo after the namespace is mixed in, the tag
  // the high half xor the low half of hi.
  const std::uint64_t mixed = std::uint64_t{kNs.value} * 0x9E3779B97F4A7C15ULL;
  const KeyId key{((std::uint64_t{number} << 32) | bucket) ^ mixed, number * 0x10001ULL + 7};
  CHECK(segment::index_hash(key, kNs).bucket == bucket);
  return key;
}

// ---- Reader ----

std::uint32_t Reader::pin(PageWorld& world, std::span<const KeyId> keys) {
  require(ledger_.reserve(static_cast<std::uint32_t>(keys.size()), cells_), "no cells");
  pinned_.assign(keys.size(), {});
  prefix_ = segment::pin_prefix(world.area(), channel_, cells_, keys, kNs, pinned_).pinned;
  for (std::uint32_t i = 0; i < prefix_; ++i)
    require(pinned_[i].checksum == bytes_of(keys[i]), "pinned with the checksum of another page");
  return prefix_;
}

void Reader::read_pages(PageWorld& world, std::span<const KeyId> keys) {
  for (int look = 0; look < 2; ++look) {
    for (std::uint32_t i = 0; i < prefix_; ++i) {
      require(world.page(pinned_[i].slot).load(std::memory_order_relaxed) == bytes_of(keys[i]),
              "a pinned page was given to another key");
    }
  }
}

}  // namespace orlop::interleaving
