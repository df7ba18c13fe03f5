// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda_geometry.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/units.h"
#include "copy/checksum.h"
#include "gpu/cuda_call.h"
#include "gpu/cuda_pieces.h"

namespace orlop::gpu {
namespace {

constexpr std::uint64_t kMost32 = std::numeric_limits<std::uint32_t>::max();

DevicePart device_part(const CompiledPart& part, ValueOrder order, std::uint32_t pool_first) {
  const bool token_first = order == ValueOrder::kTokenHeadChannel;
  DevicePart to;
  to.base = part.base;
  to.page_stride = part.page_stride;
  to.head_stride = part.head_stride;
  to.token_stride = part.token_stride;
  to.begin = static_cast<std::uint32_t>(part.value_offset);
  to.end = static_cast<std::uint32_t>(part.value_offset + part.bytes);
  to.row_bytes = static_cast<std::uint32_t>(part.row_bytes);
  to.first = token_first ? part.heads : part.tokens;
  to.second = token_first ? part.tokens : part.pages_per_value;
  to.pool_first = pool_first;
  to.by_row = FastDivision::by(to.row_bytes);
  to.by_first = FastDivision::by(to.first);
  to.by_second = FastDivision::by(to.second);
  return to;
}

// Where each pool's numbers begin among those of one value; at the end their sum.
std::vector<std::uint64_t> pool_starts(const CompiledLayout& layout) {
  std::vector<std::uint64_t> starts{0};
  for (const KvPool& pool : layout.pools()) {
    starts.push_back(starts.back() + pool.pages_per_value);
  }
  return starts;
}

Result<void> check_limits(const CompiledLayout& layout) {
  if (layout.value_len() > kMostDeviceValueBytes) {
    return fail(ErrorCode::kLimit, "layout: values of " + format_bytes(layout.value_len()) +
                                       "; the GPU engines take up to " +
                                       format_bytes(kMostDeviceValueBytes) +
                                       ": fewer tokens a value");
  }
  for (std::uint32_t pool = 0; pool < layout.pools().size(); ++pool) {
    const bool used = std::ranges::any_of(
        layout.parts(), [&](const CompiledPart& part) { return part.pool == pool; });
    if (used && layout.pool_pages(pool) > kMost32) {
      return fail(ErrorCode::kLimit, "layout: pool " + std::to_string(pool) + " has " +
                                         std::to_string(layout.pool_pages(pool)) +
                                         " pages; the GPU engines count to 2^32");
    }
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const DeviceGeometry>> DeviceGeometry::make(const CompiledLayout& layout) {
  if (const Result<void> fits = check_limits(layout); !fits) return std::unexpected(fits.error());
  auto geometry = std::make_shared<DeviceGeometry>();
  geometry->identity_ = layout.identity();
  geometry->rows_are_chunks_ = gpu::rows_are_chunks(layout);
  geometry->least_row_bytes_ =
      std::ranges::min(layout.parts(), {}, &CompiledPart::row_bytes).row_bytes;
  geometry->source_.assign(layout.parts().begin(), layout.parts().end());
  geometry->order_ = layout.order();
  geometry->unit_ = layout.alignment();
  const std::vector<std::uint64_t> starts = pool_starts(layout);
  geometry->numbers_per_value_ = static_cast<std::uint32_t>(starts.back());

  std::vector<DevicePart> parts;
  for (const CompiledPart& part : layout.parts()) {
    parts.push_back(
        device_part(part, layout.order(), static_cast<std::uint32_t>(starts[part.pool])));
  }
  const std::uint64_t bytes = layout.parts().front().bytes;
  geometry->equal_parts_ =
      bytes % kChecksumChunkBytes == 0 &&
      std::ranges::all_of(layout.parts(), [&](const auto& part) { return part.bytes == bytes; });
  if (geometry->equal_parts_) {
    geometry->by_chunks_of_part_ =
        FastDivision::by(static_cast<std::uint32_t>(bytes / kChecksumChunkBytes));
  }
  std::vector<std::uint32_t> part_of_chunk;
  std::uint32_t part = 0;
  for (std::uint64_t at = 0; at < layout.value_len(); at += kChecksumChunkBytes) {
    while (parts[part].end <= at) ++part;
    part_of_chunk.push_back(part);
  }
  const std::size_t parts_bytes = parts.size() * sizeof(DevicePart);
  const std::size_t chunks_bytes = part_of_chunk.size() * sizeof(std::uint32_t);
  Result<DeviceMemory> memory = make_device_memory(parts_bytes + chunks_bytes);
  if (!memory) return std::unexpected(memory.error());
  std::byte* const to = memory->get();
  // A stream of its own: cudaMemcpy would wait for all that an engine has in its default stream,
  // and may return before the bytes have arrived.
  const Result<Stream> stream = make_stream(true);
  if (!stream) return std::unexpected(stream.error());
  ORLOP_CUDA(cudaMemcpyAsync, to, parts.data(), parts_bytes, cudaMemcpyHostToDevice, stream->get());
  ORLOP_CUDA(cudaMemcpyAsync, to + parts_bytes, part_of_chunk.data(), chunks_bytes,
             cudaMemcpyHostToDevice, stream->get());
  ORLOP_CUDA(cudaStreamSynchronize, stream->get());
  geometry->parts_ = reinterpret_cast<const DevicePart*>(to);
  geometry->part_of_chunk_ = reinterpret_cast<const std::uint32_t*>(to + parts_bytes);
  geometry->memory_ = std::move(*memory);
  return geometry;
}

bool DeviceGeometry::is_of(const CompiledLayout& layout) const {
  if (identity_ == layout.identity()) return true;
  return order_ == layout.order() && unit_ == layout.alignment() &&
         std::ranges::equal(source_, layout.parts());
}

Result<std::shared_ptr<const DeviceGeometry>> GeometryCache::of(const CompiledLayout& layout) {
  const std::lock_guard lock(mutex_);
  const auto held =
      std::ranges::find_if(kept_, [&](const auto& geometry) { return geometry->is_of(layout); });
  if (held != kept_.end()) {
    std::rotate(held, held + 1, kept_.end());
    return kept_.back();
  }
  Result<std::shared_ptr<const DeviceGeometry>> made = DeviceGeometry::make(layout);
  if (!made) return made;
  if (kept_.size() == kMostKept) kept_.erase(kept_.begin());
  kept_.push_back(*made);
  return made;
}

}  // namespace orlop::gpu
