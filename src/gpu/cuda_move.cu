// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda_move.h"

#include "gpu/cuda_cells.cuh"
#include "gpu/cuda_checksum.cuh"
#include "gpu/cuda_finish.cuh"

namespace orlop::gpu {
namespace {

// This lane's share of S of the chunk that `cut` leaves of 4 KiB from `start`.
__device__ std::uint64_t sum_of_cells(const uint4 (&cell)[kCellsPerLane], std::uint32_t start,
                                      Cut cut, const uint4* table) {
  const unsigned lane = threadIdx.x % kLanes;
  const std::uint32_t h = chunk_key(start / kChecksumChunkBytes);
  std::uint64_t sum = 0;
#pragma unroll
  for (unsigned u = 0; u < kCellsPerLane; ++u) {
    const uint4 key = table[u * kLanes + lane];
    const std::uint32_t o = start + (u * kLanes + lane) * kCellBytes;
    // A pair counts when any byte of it does; strips begin at multiples of 8.
    if (o + 8 > cut.low && o < cut.high)
      sum += pair_sum(cell[u].x, cell[u].y, key.x + h, key.y + h);
    if (o + 16 > cut.low && o + 8 < cut.high) {
      sum += pair_sum(cell[u].z, cell[u].w, key.z + h, key.w + h);
    }
  }
  return sum;
}

// Moves the chunk that `cut` leaves of 4 KiB from `start`; this lane's share of S.
// `value`: where byte 0 of the value would stand.
template <unsigned kUnit, MoveKind kKind>
__device__ std::uint64_t move_chunk(CacheSide& cache, std::byte* value, std::uint32_t start,
                                    Cut cut, const uint4* table) {
  const unsigned lane = threadIdx.x % kLanes;
  uint4 cell[kCellsPerLane];
  const bool whole = cut.low == start && cut.high - start == kChecksumChunkBytes;
  const auto offset_of = [&](unsigned u) { return start + (u * kLanes + lane) * kCellBytes; };
  const auto value_cell = [&](unsigned u) {
    return reinterpret_cast<uint4*>(value + offset_of(u));
  };
  if (kKind == MoveKind::kScatter && whole) {
    // Before anything else: where the cells go is found out while they come.
#pragma unroll
    for (unsigned u = 0; u < kCellsPerLane; ++u) cell[u] = __ldcs(value_cell(u));
  }
  if (whole) {
#pragma unroll
    for (unsigned u = 0; u < kCellsPerLane; ++u) {
      if constexpr (kKind != MoveKind::kScatter) cell[u] = load_cells<kUnit>(cache, offset_of(u));
    }
    if constexpr (kKind != MoveKind::kSumOnly) {
#pragma unroll
      for (unsigned u = 0; u < kCellsPerLane; ++u) {
        if constexpr (kKind == MoveKind::kScatter) {
          store_cells<kUnit>(cache, offset_of(u), cell[u]);
        } else {
          __stcs(value_cell(u), cell[u]);
        }
      }
    }
  } else {
    // At most the first and the last chunk of a strip.
#pragma unroll
    for (unsigned u = 0; u < kCellsPerLane; ++u) {
      const std::uint32_t o = offset_of(u);
      cell[u] = make_uint4(0, 0, 0, 0);
      if (o >= cut.low && o + kCellBytes <= cut.high) {
        if constexpr (kKind == MoveKind::kScatter) {
          cell[u] = __ldcs(value_cell(u));
          store_cells<kUnit>(cache, o, cell[u]);
        } else {
          cell[u] = load_cells<kUnit>(cache, o);
          if constexpr (kKind == MoveKind::kGather) __stcs(value_cell(u), cell[u]);
        }
      } else if (o + kCellBytes > cut.low && o < cut.high) {
        cell[u] = move_cut_cell<kKind>(cache, value, o, cut);
      }
    }
  }
  return sum_of_cells(cell, start, cut, table);
}

// One warp's way through its items. A whole chunk that is one row of the cache is loaded while the
// one before is stored and summed, so that the memory's latency is hidden: half the time on a
// multiprocessor a byte, which is what copies take from the model beside them.
template <unsigned kUnit, MoveKind kKind>
class Mover {
 public:
  __device__ Mover(const MoveArguments& a, std::uint32_t chunks, std::byte* const* values,
                   const std::uint32_t* numbers, const uint4* table)
      : a_(a), chunks_(chunks), values_(values), table_(table), cache_(a, numbers) {}

  __device__ void start(std::uint32_t item) {
    now_ = find(item);
    if (now_.row != nullptr) load(now_, cell_);
  }
  // Moves what was started and starts `next`.
  __device__ void move(std::uint32_t next, bool there_is_one) {
    const Item item = now_;
    if constexpr (kUnit == 16) {
      uint4 ahead[kCellsPerLane];
      if (there_is_one) {
        now_ = find(next);
        if (now_.row != nullptr) load(now_, ahead);
      }
      if (item.row != nullptr) {
        store(item, cell_);
        add(item, sum_of_cells(cell_, item.start, whole(item), table_));
      } else {
        move_slowly(item);
      }
#pragma unroll
      for (unsigned u = 0; u < kCellsPerLane; ++u) cell_[u] = ahead[u];
    } else {
      move_slowly(item);
      if (there_is_one) now_ = find(next);
    }
  }

 private:
  struct Item {
    std::uint32_t index, value, start;
    std::byte* at;   // where byte 0 of the value would stand
    std::byte* row;  // of the cache, this lane's first cell; null: not whole or not one row
  };
  __device__ static Cut whole(const Item& item) {
    return {item.start, item.start + static_cast<std::uint32_t>(kChecksumChunkBytes)};
  }
  __device__ Item find(std::uint32_t index) {
    Item item;
    item.index = index;
    item.value = divide(index, a_.by_chunks);
    const std::uint32_t chunk = chunk_of(item);
    item.start = chunk * static_cast<std::uint32_t>(kChecksumChunkBytes);
    item.at =
        a_.stage != nullptr ? a_.stage + item.value * a_.pitch - a_.begin : values_[item.value];
    item.row = nullptr;
    if constexpr (kUnit == 16) {
      if (item.start >= a_.begin && item.start + kChecksumChunkBytes <= a_.end) {
        cache_.start(part_of(chunk), item.value, a_.numbers_per_value);
        std::uint32_t left = 0;
        std::byte* const row = cache_.at(item.start, &left) + threadIdx.x % kLanes * kCellBytes;
        if (left >= kChecksumChunkBytes) item.row = row;
      }
    }
    return item;
  }
  __device__ std::uint32_t chunk_of(const Item& item) const {
    return a_.begin / static_cast<std::uint32_t>(kChecksumChunkBytes) + item.index -
           item.value * chunks_;
  }
  __device__ std::uint32_t part_of(std::uint32_t chunk) const {
    return a_.equal_parts ? divide(chunk, a_.by_chunks_of_part) : a_.part_of_chunk[chunk];
  }
  __device__ static uint4* value_cells(const Item& item) {
    return reinterpret_cast<uint4*>(item.at + item.start) + threadIdx.x % kLanes;
  }
  __device__ static void load(const Item& item, uint4 (&cell)[kCellsPerLane]) {
    const uint4* const from =
        kKind == MoveKind::kScatter ? value_cells(item) : reinterpret_cast<const uint4*>(item.row);
#pragma unroll
    for (unsigned u = 0; u < kCellsPerLane; ++u) cell[u] = __ldcs(from + u * kLanes);
  }
  __device__ static void store(const Item& item, const uint4 (&cell)[kCellsPerLane]) {
    if constexpr (kKind != MoveKind::kSumOnly) {
      uint4* const to =
          kKind == MoveKind::kScatter ? reinterpret_cast<uint4*>(item.row) : value_cells(item);
#pragma unroll
      for (unsigned u = 0; u < kCellsPerLane; ++u) __stcs(to + u * kLanes, cell[u]);
    }
  }
  __device__ void move_slowly(const Item& item) {
    const Cut cut{max(item.start, a_.begin),
                  min(item.start + static_cast<std::uint32_t>(kChecksumChunkBytes), a_.end)};
    cache_.start(part_of(chunk_of(item)), item.value, a_.numbers_per_value);
    add(item, move_chunk<kUnit, kKind>(cache_, item.at, item.start, cut, table_));
  }
  __device__ void add(const Item& item, std::uint64_t share) {
    const std::uint64_t sum = sum_of_warp(share);
    if (threadIdx.x % kLanes == 0) {
      atomicAdd(a_.sums + item.value, static_cast<unsigned long long>(sum));
    }
  }

  const MoveArguments& a_;
  const std::uint32_t chunks_;
  std::byte* const* const values_;
  const uint4* const table_;
  CacheSide cache_;
  Item now_;
  uint4 cell_[kCellsPerLane];
};

extern __shared__ uint4 dynamic_shared[];

// Brings page numbers and value addresses of a long batch into shared memory.
__device__ void fetch_lists(const MoveArguments& a, bool addresses, bool numbers) {
  auto* const values = reinterpret_cast<std::byte**>(dynamic_shared);
  if (addresses) {
    for (std::uint32_t i = threadIdx.x; i < a.count; i += blockDim.x) {
      values[i] = a.value_addresses[i];
    }
  }
  if (numbers) {
    auto* const to = reinterpret_cast<std::uint32_t*>(values + (addresses ? a.count : 0));
    for (std::uint32_t i = threadIdx.x; i < a.count * a.numbers_per_value; i += blockDim.x) {
      to[i] = a.numbers[i];
    }
  }
}

template <unsigned kUnit, MoveKind kKind>
__global__ void __launch_bounds__(kMoveThreads)
    move_pages(const __grid_constant__ MoveArguments a, bool shared_numbers) {
  const std::uint32_t chunks =
      (a.end + kChecksumChunkBytes - 1) / static_cast<std::uint32_t>(kChecksumChunkBytes) -
      a.begin / static_cast<std::uint32_t>(kChecksumChunkBytes);
  const std::uint32_t items = a.count * chunks;
  const std::uint32_t step = gridDim.x * (blockDim.x / kLanes);
  const bool shared_values = a.stage == nullptr && a.value_addresses != nullptr;
  // A warp with a single chunk reads its keys beside its data; filling shared memory first would
  // only delay that.
  __shared__ uint4 shared_table[kChecksumChunkBytes / kCellBytes];
  const auto* table = reinterpret_cast<const uint4*>(kTable.word);
  if (items > step) {
    for (unsigned i = threadIdx.x; i < kChecksumChunkBytes / kCellBytes; i += blockDim.x) {
      shared_table[i] = table[i];
    }
    table = shared_table;
  }
  if (items > step || shared_values || shared_numbers) {
    fetch_lists(a, shared_values, shared_numbers);
    __syncthreads();
  }
  std::byte* const* const values =
      shared_values ? reinterpret_cast<std::byte**>(dynamic_shared) : a.inline_values;
  const std::uint32_t* const numbers =
      shared_numbers
          ? reinterpret_cast<const std::uint32_t*>(reinterpret_cast<std::byte**>(dynamic_shared) +
                                                   (shared_values ? a.count : 0))
          : (a.numbers != nullptr ? a.numbers : a.inline_numbers);
  Mover<kUnit, kKind> mover(a, chunks, values, numbers, table);
  // Blocks take neighbouring items in turn: a short batch is spread over all of them.
  std::uint32_t item = threadIdx.x / kLanes * gridDim.x + blockIdx.x;
  if (item < items) mover.start(item);
  while (item < items) {
    const std::uint32_t next = item + step;
    mover.move(next, next < items);
    item = next;
  }
  finish(a);
}

using Kernel = void (*)(MoveArguments, bool);

template <unsigned kUnit>
Kernel kernel_of(MoveKind kind) {
  switch (kind) {
    case MoveKind::kScatter:
      return move_pages<kUnit, MoveKind::kScatter>;
    case MoveKind::kGather:
      return move_pages<kUnit, MoveKind::kGather>;
    case MoveKind::kSumOnly:
      return move_pages<kUnit, MoveKind::kSumOnly>;
  }
  return nullptr;
}

Kernel kernel_of(MoveKind kind, unsigned unit) {
  if (unit >= 16) return kernel_of<16>(kind);
  if (unit >= 8) return kernel_of<8>(kind);
  if (unit >= 4) return kernel_of<4>(kind);
  return kernel_of<1>(kind);
}

}  // namespace

cudaError_t launch_move(const MoveArguments& arguments, MoveKind kind, unsigned unit,
                        unsigned blocks, KernelLauncher& launcher, cudaStream_t stream) {
  const std::uint64_t numbers =
      static_cast<std::uint64_t>(arguments.count) * arguments.numbers_per_value;
  const bool shared_numbers = arguments.numbers != nullptr && numbers <= kSharedNumbers;
  const bool shared_values = arguments.stage == nullptr && arguments.value_addresses != nullptr;
  const std::size_t shared = (shared_numbers ? numbers * sizeof(std::uint32_t) : 0) +
                             (shared_values ? arguments.count * sizeof(std::byte*) : 0);
  MoveArguments copy = arguments;
  bool in_shared = shared_numbers;
  void* parameters[] = {&copy, &in_shared};
  return launcher.launch(reinterpret_cast<const void*>(kernel_of(kind, unit)),
                         {blocks, kMoveThreads, shared}, parameters, stream);
}

cudaError_t load_move_kernels() {
  for (const unsigned unit : {16u, 8u, 4u, 1u}) {
    for (const MoveKind kind : {MoveKind::kScatter, MoveKind::kGather, MoveKind::kSumOnly}) {
      cudaFuncAttributes attributes;
      const cudaError_t error =
          cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel_of(kind, unit)));
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

}  // namespace orlop::gpu
