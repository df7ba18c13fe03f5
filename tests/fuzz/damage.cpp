// SPDX-License-Identifier: Apache-2.0
#include "damage.h"

#include <cstring>

#include "base/rng.h"
#include "segment/key_index.h"

namespace orlop::fuzz {
namespace {

using segment::SlotFields;
using segment::SlotRow;
using segment::SlotWord;

constexpr std::uint32_t kRowsDamaged = 8;  // of the namespace table; the rest is empty

std::span<std::byte> region(const Host& host, Region which) {
  const segment::Geometry& g = host.memory().geometry;
  const std::span<std::byte> all = host.control();
  switch (which) {
    case Region::kHeader:
      return all.first(kPageBytes);
    case Region::kSlabs:
      return all.subspan(g.slab_table_offset, sizeof(segment::SlabRow) * g.slab_count);
    case Region::kNamespaces:
      return all.subspan(g.namespace_table_offset,
                         sizeof(segment::NamespaceTableRow) * kRowsDamaged);
    case Region::kTexts:
      return all.subspan(g.namespace_text_offset, segment::kNamespaceTextBytes * 2);
    case Region::kSlots:
      return all.subspan(g.slot_table_offset, sizeof(SlotRow) * g.slot_rows);
    case Region::kIndex0:
    case Region::kIndex1:
    case Region::kCount:
      break;
  }
  return all.subspan(g.index_offset[which == Region::kIndex1 ? 1 : 0], g.index_place_bytes);
}

SlotRow& any_slot(Input& input, const Host& host) {
  const std::uint32_t rows = host.memory().geometry.slot_rows;
  return host.area().slot(SlotId{1 + input.below(std::min(rows - 1, 256U))});
}

// Whatever lies there, little of it or much.
void store(Input& input, const Host& host, std::size_t bytes) {
  const auto which = static_cast<Region>(input.below(static_cast<std::uint32_t>(Region::kCount)));
  const std::span<std::byte> span = region(host, which);
  const std::size_t places = span.size() / bytes;
  const std::size_t at = input.take<std::uint16_t>() % places * bytes;
  auto value = input.take<std::uint64_t>();
  // libFuzzer tries what it saw compared. A checksum that it learned from us would be forged, and
  // nothing here claims to stand that (docs/operations/security.md).
  if (which == Region::kSlots && bytes == 8) splitmix64(value);
  std::memcpy(span.data() + at, &value, bytes);
}

void flip(Input& input, const Host& host) {
  const auto which = static_cast<Region>(input.below(static_cast<std::uint32_t>(Region::kCount)));
  const std::span<std::byte> span = region(host, which);
  span[input.take<std::uint16_t>() % span.size()] ^= input.take<std::byte>();
}

void change_word(Input& input, const Host& host) {
  SlotRow& row = any_slot(input, host);
  SlotWord word = row.load_word();
  word.state = static_cast<segment::SlotState>(input.below(segment::kSlotStateCount + 1));
  word.flags = static_cast<std::uint8_t>(input.below(3));
  word.generation.value += static_cast<std::uint32_t>(input.take<std::int8_t>());
  row.store_word(word);
}

void change_field(Input& input, const Host& host) {
  SlotRow& row = any_slot(input, host);
  const SlotWord word = row.load_word();
  SlotFields fields = row.load_fields();
  std::uint64_t checksum = row.load_checksum();
  const std::uint32_t which = input.below(10);
  const auto value = input.take<std::uint32_t>();
  const auto half = static_cast<std::uint16_t>(value);
  switch (which) {
    case 0:
      fields.key = host_key(value % 64);
      break;
    case 1:
      fields.value_len = value;
      break;
    case 2:
      fields.ns = NamespaceIndex{value % 8};
      break;
    case 3:
      fields.group.index = half;
      break;
    case 4:
      fields.group.length = half;
      break;
    case 5:
      fields.group.group_number = half;
      break;
    case 6:
      fields.group.parent = SlotId{value};
      break;
    case 7:
      fields.group.parent_generation = half;
      break;
    case 8:
      fields.put = make_put_id(ClientId{value % 4}, value >> 8);
      break;
    default:
      checksum ^= value;
      break;
  }
  const std::uint32_t old_sum = row.load_fields_sum();
  row.store_fields(fields);
  row.store_checksums(
      checksum, input.flag() ? segment::fields_sum(fields, checksum, word.generation) : old_sum);
}

void change_namespace(Input& input, const Host& host) {
  segment::NamespaceTableRow& row =
      host.area().namespace_row(NamespaceRow{input.below(kRowsDamaged)});
  const std::uint32_t which = input.below(5);
  const auto value = input.take<std::uint32_t>();
  if (which == 0) row.current_index.store(value % 8);
  if (which == 1) row.value_len = value;
  if (which == 2) row.digest_lo ^= value;
  if (which == 3) row.text_bytes = value;
  if (which == 4) row.family_lo ^= value;
}

void change_header(Input& input, const Host& host) {
  segment::ControlHeader& header = host.area().header();
  const std::uint32_t which = input.below(6);
  const auto value = input.take<std::uint64_t>();
  const auto low = static_cast<std::uint32_t>(value);
  if (which == 0) header.index_word.store(value);
  if (which == 1) header.pin_cap_bytes.store(value);
  if (which == 2) header.incarnation.store(value);
  if (which == 3) header.server_state.store(low);
  if (which == 4) header.next_namespace_index.store(low);
  if (which == 5) header.draining.store(low);
}

void change_channel(Input& input, const HostChannel& channel) {
  const std::span<std::byte> span = channel.span();
  const std::size_t at = std::size_t{input.take<std::uint16_t>()} * 8 % span.size();
  const std::span<const std::byte> from = input.bytes(std::min<std::size_t>(8, span.size() - at));
  if (!from.empty()) std::memcpy(span.data() + at, from.data(), from.size());
}

void change_pin(Input& input, const Host& host, const HostChannel& channel) {
  const std::uint32_t cell = input.below(segment::kCellsPerChunk);
  const SlotId slot{1 + input.below(Host::kSlots)};
  Generation generation = host.area().slot(slot).load_word().generation;
  generation.value += static_cast<std::uint32_t>(input.take<std::int8_t>());
  channel.view().bitmap()[0].fetch_or(1);
  channel.view().cells()[cell].store(segment::LedgerCell{slot, generation}.pack());
}

void change_value(Input& input, const Host& host) {
  const SlotId slot{1 + input.below(Host::kSlots)};
  const std::span<std::byte> bytes = host.value(slot, kPageBytes);
  bytes[input.take<std::uint16_t>() % bytes.size()] ^= input.take<std::byte>();
}

}  // namespace

bool damage_once(Input& input, const Host& host, std::span<const HostChannel* const> channels) {
  if (input.empty()) return false;
  const auto channel = [&]() -> const HostChannel& {
    return *channels[input.below(static_cast<std::uint32_t>(channels.size()))];
  };
  switch (static_cast<Damage>(input.below(static_cast<std::uint32_t>(Damage::kCount)))) {
    case Damage::kFlip:
      flip(input, host);
      break;
    case Damage::kStore32:
      store(input, host, 4);
      break;
    case Damage::kStore64:
      store(input, host, 8);
      break;
    case Damage::kCopyRow: {
      const SlotRow& from = any_slot(input, host);
      std::memcpy(static_cast<void*>(&any_slot(input, host)), &from, sizeof from);
      break;
    }
    case Damage::kWord:
      change_word(input, host);
      break;
    case Damage::kField:
      change_field(input, host);
      break;
    case Damage::kSlab:
      host.area()
          .slab(SlabId{input.below(host.memory().geometry.slab_count)})
          .slot_pages.store(input.take<std::uint16_t>());
      break;
    case Damage::kNamespace:
      change_namespace(input, host);
      break;
    case Damage::kHeader:
      change_header(input, host);
      break;
    case Damage::kFixedField:
      host.control()[input.take<std::uint8_t>()] ^= input.take<std::byte>();
      break;
    case Damage::kChannel:
      change_channel(input, channel());
      break;
    case Damage::kPin:
      change_pin(input, host, channel());
      break;
    case Damage::kValue:
    case Damage::kCount:
      change_value(input, host);
      break;
  }
  return true;
}

}  // namespace orlop::fuzz
