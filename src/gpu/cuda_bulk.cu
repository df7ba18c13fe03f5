// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda_bulk.h"

#include "gpu/cuda_bulk_copy.cuh"
#include "gpu/cuda_cells.cuh"
#include "gpu/cuda_checksum.cuh"
#include "gpu/cuda_finish.cuh"

namespace orlop::gpu {
namespace {

// Bulk copies are there from 9.0 on; code for older ones has empty kernels.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define ORLOP_HAS_BULK_COPIES
#endif

// Lanes work out where the warp's next chunks lie, one each; what waits and what is being moved
// fits.
constexpr unsigned kFoundAtOnce = 16;
constexpr unsigned kFound = 2 * kFoundAtOnce;
constexpr std::size_t kPieceBytes = 32;
constexpr std::size_t warp_bytes(unsigned stages) {
  const std::size_t bytes =
      stages * (kChecksumChunkBytes + sizeof(std::uint64_t)) + kFound * kPieceBytes;
  return (bytes + 127) / 128 * 128;
}

#ifdef ORLOP_HAS_BULK_COPIES

// What a warp does with one chunk.
struct Piece {
  std::uint64_t first, second;  // of the cache; second: where another row begins within the chunk
  std::uint32_t stage;          // offset in the staging memory
  std::uint32_t key;            // of the chunk
  std::uint16_t low, high;      // bytes of the chunk, multiples of 16
  std::uint16_t first_bytes;
  std::uint16_t value;
  __device__ std::uint32_t bytes() const { return high - low; }
};
static_assert(sizeof(Piece) == kPieceBytes);

template <unsigned kStages>
struct WarpMemory {
  alignas(128) std::byte chunk[kStages][kChecksumChunkBytes];  // on their way
  Piece piece[kFound];
  BulkBarrier loaded[kStages];
};

// One warp's way through its chunks; warps share nothing.
template <unsigned kStages, MoveKind kKind>
class BulkWarp {
 public:
  static_assert(kStages <= kFoundAtOnce);
  static_assert(sizeof(WarpMemory<kStages>) == warp_bytes(kStages));
  __device__ BulkWarp(const MoveArguments& a, WarpMemory<kStages>& memory,
                      const std::uint32_t* numbers)
      : a_(a),
        memory_(memory),
        numbers_(numbers),
        chunks_((a.end + kChunk - 1) / kChunk - a.begin / kChunk),
        // Blocks take neighbouring chunks in turn: short slices are spread over all of them.
        first_(threadIdx.x / kLanes * gridDim.x + blockIdx.x),
        step_(blockDim.x / kLanes * gridDim.x),
        policy_(once()) {
    const std::uint32_t chunks = a.count * chunks_;
    pieces_ = first_ < chunks ? (chunks - first_ - 1) / step_ + 1 : 0;
    const auto* const keys = reinterpret_cast<const uint4*>(kTable.word) + lane();
#pragma unroll
    for (unsigned u = 0; u < kCellsPerLane; ++u) key_[u] = keys[u * kLanes];
    if (lane() == 0) {
      for (BulkBarrier& loaded : memory.loaded) loaded.init();
      BulkBarrier::fence_init();
    }
    __syncwarp();
  }

  __device__ void run() {
    for (unsigned i = 0; i + 1 < kStages; ++i) load_next();
#pragma unroll 1
    for (std::uint32_t i = 0; i < pieces_; ++i) {
      move(i);
      // The chunk before was read: by its stores, seen here, and by all lanes, at the barrier.
      if (lane() == 0) wait_for_reads_but_last();
      __syncwarp();
      load_next();
    }
    give_sum();
    if (lane() == 0) wait_for_stores();
  }

 private:
  static constexpr auto kChunk = static_cast<std::uint32_t>(kChecksumChunkBytes);
  __device__ static unsigned lane() { return threadIdx.x % kLanes; }

  __device__ void load_next() {
    if (started_ == pieces_) return;
    if (started_ % kFoundAtOnce == 0) {
      if (lane() < kFoundAtOnce) find(started_ + lane());
      __syncwarp();
    }
    if (lane() == 0) load(memory_.piece[started_ % kFound]);
    ++started_;
  }

  __device__ void find(std::uint32_t index) {
    if (index >= pieces_) return;
    const std::uint32_t item = first_ + index * step_;
    const std::uint32_t value = divide(item, a_.by_chunks);
    const std::uint32_t chunk = a_.begin / kChunk + item - value * chunks_;
    const std::uint32_t start = chunk * kChunk;
    const std::uint32_t low = max(start, a_.begin), high = min(start + kChunk, a_.end);
    Piece& piece = memory_.piece[index % kFound];
    piece.stage = value * static_cast<std::uint32_t>(a_.pitch) + low - a_.begin;
    piece.key = chunk_key(chunk);
    piece.low = static_cast<std::uint16_t>(low - start);
    piece.high = static_cast<std::uint16_t>(high - start);
    piece.value = static_cast<std::uint16_t>(value);
    const std::uint32_t* const of_value = numbers_ + value * a_.numbers_per_value;
    const DevicePart* part =
        a_.parts + (a_.equal_parts ? divide(chunk, a_.by_chunks_of_part) : a_.part_of_chunk[chunk]);
    while (low >= part->end) ++part;
    std::uint32_t left = 0;
    piece.first = byte_of_cache(*part, of_value, a_.token_first, low, &left);
    piece.first_bytes = static_cast<std::uint16_t>(min(left, high - low));
    if (left >= high - low) return;
    while (low + left >= part->end) ++part;
    piece.second = byte_of_cache(*part, of_value, a_.token_first, low + left, nullptr);
  }

  __device__ std::uint64_t in_stage(const Piece& piece) const {
    return reinterpret_cast<std::uint64_t>(a_.stage) + piece.stage;
  }
  __device__ void load(const Piece& piece) {
    BulkBarrier& loaded = memory_.loaded[started_ % kStages];
    std::byte* const to = memory_.chunk[started_ % kStages] + piece.low;
    loaded.expect(piece.bytes());
    if constexpr (kKind == MoveKind::kScatter) {
      bulk_load(to, in_stage(piece), piece.bytes(), loaded, policy_);
    } else {
      bulk_load(to, piece.first, piece.first_bytes, loaded, policy_);
      if (piece.first_bytes < piece.bytes()) {
        bulk_load(to + piece.first_bytes, piece.second, piece.bytes() - piece.first_bytes, loaded,
                  policy_);
      }
    }
  }
  __device__ void store(const Piece& piece, const std::byte* chunk) {
    const std::byte* const from = chunk + piece.low;
    if constexpr (kKind == MoveKind::kScatter) {
      bulk_store(piece.first, from, piece.first_bytes, policy_);
      if (piece.first_bytes < piece.bytes()) {
        bulk_store(piece.second, from + piece.first_bytes, piece.bytes() - piece.first_bytes,
                   policy_);
      }
    } else {
      bulk_store(in_stage(piece), from, piece.bytes(), policy_);
    }
    commit_stores();
  }

  __device__ void move(std::uint32_t index) {
    const std::byte* const chunk = memory_.chunk[index % kStages];
    const Piece& piece = memory_.piece[index % kFound];
    memory_.loaded[index % kStages].wait(index / kStages % 2);
    if (lane() == 0) store(piece, chunk);
    if (piece.value != value_) {
      give_sum();
      value_ = piece.value;
    }
    add(piece, chunk);
  }

  __device__ void add(const Piece& piece, const std::byte* chunk) {
    const std::uint32_t h = piece.key, low = piece.low, high = piece.high;
    const bool whole = high - low == kChunk;
    const uint4* const cells = reinterpret_cast<const uint4*>(chunk) + lane();
#pragma unroll
    for (unsigned u = 0; u < kCellsPerLane; ++u) {
      const std::uint32_t at = (u * kLanes + lane()) * kCellBytes;
      if (whole || (at >= low && at < high)) {
        const uint4 cell = cells[u * kLanes];
        sum_ += pair_sum(cell.x, cell.y, key_[u].x + h, key_[u].y + h);
        sum_ += pair_sum(cell.z, cell.w, key_[u].z + h, key_[u].w + h);
      }
    }
  }
  // To the value whose chunks came last.
  __device__ void give_sum() {
    const std::uint64_t sum = sum_of_warp(sum_);
    if (lane() == 0) atomicAdd(a_.sums + value_, static_cast<unsigned long long>(sum));
    sum_ = 0;
  }

  const MoveArguments& a_;
  WarpMemory<kStages>& memory_;
  const std::uint32_t* const numbers_;
  const std::uint32_t chunks_;        // of a value
  const std::uint32_t first_, step_;  // of all chunks, those of this warp
  const std::uint64_t policy_;
  std::uint32_t pieces_ = 0;   // of this warp
  std::uint32_t started_ = 0;  // loads
  std::uint64_t sum_ = 0;      // this lane's share
  std::uint32_t value_ = 0;
  uint4 key_[kCellsPerLane];
};

extern __shared__ __align__(128) std::byte bulk_shared[];

#endif  // ORLOP_HAS_BULK_COPIES

template <unsigned kWarps, unsigned kStages, MoveKind kKind>
__global__ void __launch_bounds__(kWarps* kLanes, 1)
    move_in_bulk(const __grid_constant__ MoveArguments a) {
#ifdef ORLOP_HAS_BULK_COPIES
  auto* const warps = reinterpret_cast<WarpMemory<kStages>*>(bulk_shared);
  auto* const numbers = reinterpret_cast<std::uint32_t*>(warps + kWarps);
  if (a.numbers != nullptr) {
    for (std::uint32_t i = threadIdx.x; i < a.count * a.numbers_per_value; i += blockDim.x) {
      numbers[i] = a.numbers[i];
    }
    __syncthreads();
  }
  BulkWarp<kStages, kKind> warp(a, warps[threadIdx.x / kLanes],
                                a.numbers != nullptr ? numbers : a.inline_numbers);
  warp.run();
  finish(a);
#endif
}

// 192 KiB on their way in a block.
constexpr unsigned kBulkWarps = 16, kBulkStages = 3;
constexpr std::size_t kBulkMemory = kBulkWarps * warp_bytes(kBulkStages);

const void* kernel_of(MoveKind kind) {
  return kind == MoveKind::kScatter ? reinterpret_cast<const void*>(
                                          move_in_bulk<kBulkWarps, kBulkStages, MoveKind::kScatter>)
                                    : reinterpret_cast<const void*>(
                                          move_in_bulk<kBulkWarps, kBulkStages, MoveKind::kGather>);
}

std::size_t memory_for(std::uint64_t numbers) {
  return kBulkMemory + numbers * sizeof(std::uint32_t);
}

}  // namespace

bool bulk_takes(const MoveArguments& a) {
  return a.stage != nullptr && a.begin % kCellBytes == 0 && a.end % kCellBytes == 0 &&
         a.count * a.pitch < std::uint64_t{1} << 32 &&
         std::uint64_t{a.count} * a.numbers_per_value <= kMostBulkNumbers;
}

cudaError_t launch_bulk(const MoveArguments& arguments, MoveKind kind, unsigned blocks,
                        KernelLauncher& launcher, cudaStream_t stream) {
  MoveArguments copy = arguments;
  void* parameters[] = {&copy};
  const std::uint64_t numbers = std::uint64_t{arguments.count} * arguments.numbers_per_value;
  const std::size_t shared = memory_for(arguments.numbers != nullptr ? numbers : 0);
  return launcher.launch(kernel_of(kind), {blocks, kBulkWarps * kLanes, shared}, parameters,
                         stream);
}

cudaError_t load_bulk_kernels(bool* there) {
  *there = true;
  for (const MoveKind kind : {MoveKind::kScatter, MoveKind::kGather}) {
    cudaFuncAttributes attributes;
    cudaError_t error = cudaFuncGetAttributes(&attributes, kernel_of(kind));
    if (error != cudaSuccess) return error;
    // Code that was made on this machine from PTX for older devices has nothing in it.
    *there = *there && attributes.ptxVersion >= 90;
    if (!*there) continue;
    error = cudaFuncSetAttribute(kernel_of(kind), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(memory_for(kMostBulkNumbers)));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace orlop::gpu
