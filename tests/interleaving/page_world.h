// SPDX-License-Identifier: Apache-2.0
// A tiny segment for programs: control area, channels, and one word per slot that stands for the
// bytes of its page. All of it is allocated once, for addresses must not move between schedules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/sparse_array.h"
#include "program.h"
#include "segment/channel.h"
#include "segment/control_area.h"
#include "segment/ledger.h"
#include "segment/pin.h"

namespace orlop::interleaving {

inline constexpr NamespaceIndex kNs{1};

// Page aligned and zero.
class SharedMemory {
 public:
  explicit SharedMemory(std::uint64_t bytes) : bytes_(bytes), memory_(bytes + kPageBytes) {}
  std::span<std::byte> span() {
    const auto at = reinterpret_cast<std::uintptr_t>(&memory_[0]);
    return {&memory_[align_up(at, kPageBytes) - at], bytes_};
  }

 private:
  std::uint64_t bytes_;
  SparseArray<std::byte> memory_;
};

class ClientChannel {
 public:
  explicit ClientChannel(std::uint32_t ledger_cells = segment::kCellsPerChunk);
  const segment::ChannelView& view() const { return view_; }
  std::string name_of(const void* address) const;

 private:
  segment::ChannelSizes sizes_;
  segment::ChannelGeometry geometry_;
  SharedMemory memory_;
  segment::ChannelView view_;
};

class PageWorld {
 public:
  // One slab per slot: every slot id from 1 to `slots` exists.
  explicit PageWorld(std::uint32_t slots = 8);

  const segment::ControlArea& area() const { return area_; }
  segment::Atomic<std::uint64_t>& page(SlotId slot) { return pages_[slot.value]; }
  std::uint32_t slots() const { return slots_; }
  std::string name_of(const void* address) const;

 private:
  std::uint32_t slots_;
  segment::Geometry geometry_;
  SharedMemory memory_;
  segment::ControlArea area_;
  std::vector<segment::Atomic<std::uint64_t>> pages_;
};

// A key with a chosen home bucket; what its page contains.
KeyId key_in_bucket(std::uint32_t bucket, std::uint32_t number);
constexpr std::uint64_t bytes_of(const KeyId& key) {
  return key.lo ^ (key.hi << 1);
}

// A reading thread of a client. Plain state: copied back from a prototype before each schedule.
class Reader {
 public:
  explicit Reader(const segment::ChannelView& channel) : channel_(channel), ledger_(channel) {}

  segment::ThreadLedger& ledger() { return ledger_; }
  const segment::ChannelView& channel() const { return channel_; }
  const std::vector<std::uint32_t>& cells() const { return cells_; }

  // Reserves cells and pins; requires that what it pinned is what was asked for. Returns the
  // prefix.
  std::uint32_t pin(PageWorld& world, std::span<const KeyId> keys);
  // What a pin promises: the bytes of the pinned keys, as often as one looks.
  void read_pages(PageWorld& world, std::span<const KeyId> keys);
  void release() { segment::release_cells(channel_, cells_); }

 private:
  segment::ChannelView channel_;
  segment::ThreadLedger ledger_;
  std::vector<std::uint32_t> cells_;
  std::vector<segment::PinnedSlot> pinned_;
  std::uint32_t prefix_ = 0;
};

}  // namespace orlop::interleaving
