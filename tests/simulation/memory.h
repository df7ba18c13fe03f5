// SPDX-License-Identifier: Apache-2.0
// The shared memory of one host. A shared_ptr to it is what a descriptor or a mapping is to a real
// process: the memory lives as long as somebody holds one.
#pragma once

#include <cstdlib>
#include <cstring>
#include <span>

#include "base/bytes.h"
#include "base/check.h"
#include "segment/channel.h"
#include "segment/control_area.h"
#include "segment/geometry.h"

namespace orlop::simulation {

// Page-aligned, zeroed.
class PageMemory {
 public:
  explicit PageMemory(std::uint64_t bytes)
      : bytes_(align_up(bytes, kPageBytes)),
        data_(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, bytes_))) {
    CHECK(data_ != nullptr);
    clear();
  }
  ~PageMemory() { std::free(data_); }
  PageMemory(const PageMemory&) = delete;
  PageMemory& operator=(const PageMemory&) = delete;
  void clear() const { std::memset(data_, 0, bytes_); }
  std::span<std::byte> first(std::uint64_t bytes) const { return {data_, bytes}; }

 private:
  std::uint64_t bytes_;
  std::byte* data_;
};

struct SegmentMemory {
  SegmentMemory(std::uint64_t capacity, std::uint64_t max_value_len)
      : geometry(segment::make_geometry(capacity, max_value_len).value()),
        control(geometry.control_bytes),
        values(geometry.value_bytes()) {}
  std::span<std::byte> control_span() const { return control.first(geometry.control_bytes); }
  std::span<std::byte> value(SlotId slot, std::uint32_t value_len) const {
    CHECK(geometry.in_bounds(slot, value_len));
    return values.first(geometry.value_bytes())
        .subspan(geometry.value_offset(slot, value_len), value_len);
  }

  segment::Geometry geometry;
  PageMemory control;
  PageMemory values;
};

struct ChannelMemory {
  explicit ChannelMemory(const segment::ChannelSizes& asked)
      : sizes(asked),
        geometry(segment::make_channel_geometry(asked).value()),
        memory(geometry.total_bytes) {}
  std::span<std::byte> span() const { return memory.first(geometry.total_bytes); }

  segment::ChannelSizes sizes;
  segment::ChannelGeometry geometry;
  PageMemory memory;
};

}  // namespace orlop::simulation
