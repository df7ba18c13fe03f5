// SPDX-License-Identifier: Apache-2.0
// Internal to room gpu: a layout as the kernels read it, in device memory.
//
// Guarantees: immutable after make(). Thread: any.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/compiled_layout.h"
#include "gpu/cuda_move.h"
#include "gpu/cuda_resources.h"
#include "orlop/error.h"

namespace orlop::gpu {

class DeviceGeometry {
 public:
  // Blocks for the upload of some KiB, and for nothing else on the device. kLimit: values or
  // numbers beyond what the kernels count (kMostDeviceValueBytes). Requires: the device is current.
  static Result<std::shared_ptr<const DeviceGeometry>> make(const CompiledLayout& layout);

  bool is_of(const CompiledLayout& layout) const;
  // Whether every row is of whole checksum chunks (cuda_pieces.h).
  bool rows_are_chunks() const { return rows_are_chunks_; }
  // Bytes of the shortest row.
  std::uint64_t least_row_bytes() const { return least_row_bytes_; }
  const DevicePart* parts() const { return parts_; }
  const std::uint32_t* part_of_chunk() const { return part_of_chunk_; }
  std::uint32_t numbers_per_value() const { return numbers_per_value_; }
  bool token_first() const { return order_ == ValueOrder::kTokenHeadChannel; }
  unsigned unit() const { return unit_; }
  // Whether all parts have the same number of whole checksum chunks; and the division by it.
  bool equal_parts() const { return equal_parts_; }
  FastDivision by_chunks_of_part() const { return by_chunks_of_part_; }

 private:
  std::uint64_t identity_ = 0;  // of the layout it was made of
  std::vector<CompiledPart> source_;
  ValueOrder order_{};
  DeviceMemory memory_;
  const DevicePart* parts_ = nullptr;
  const std::uint32_t* part_of_chunk_ = nullptr;
  std::uint32_t numbers_per_value_ = 0;
  unsigned unit_ = 1;
  bool equal_parts_ = false;
  bool rows_are_chunks_ = false;
  std::uint64_t least_row_bytes_ = 0;
  FastDivision by_chunks_of_part_;
};

// The last few layouts of a copier.
class GeometryCache {
 public:
  // As DeviceGeometry::make(), which it calls for a layout that it does not hold.
  Result<std::shared_ptr<const DeviceGeometry>> of(const CompiledLayout& layout);

 private:
  static constexpr std::size_t kMostKept = 8;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const DeviceGeometry>> kept_;  // the last used at the end
};

}  // namespace orlop::gpu
