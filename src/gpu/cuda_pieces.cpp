// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda_pieces.h"

#include <algorithm>
#include <span>
#include <vector>

#include "copy/checksum.h"
#include "gpu/compiled_part.h"

namespace orlop::gpu {
namespace {

// Joins what is adjacent on both sides; cuts at the borders of registrations.
class PieceJoiner {
 public:
  using Piece = std::function<void(std::byte*, std::byte*, std::uint64_t)>;
  PieceJoiner(const RegisteredChunks& chunks, const Piece& piece)
      : chunks_(chunks), piece_(piece) {}
  ~PieceJoiner() { end(); }
  PieceJoiner(const PieceJoiner&) = delete;
  PieceJoiner& operator=(const PieceJoiner&) = delete;

  void add(std::byte* in_value, std::byte* in_cache, std::uint64_t bytes) {
    if (bytes_ > 0 && value_ + bytes_ == in_value && cache_ + bytes_ == in_cache) {
      bytes_ += bytes;
      return;
    }
    end();
    value_ = in_value;
    cache_ = in_cache;
    bytes_ = bytes;
  }

 private:
  void end() {
    while (bytes_ > 0) {
      const std::uint64_t run = std::min(bytes_, chunks_.run_at(value_));
      if (run == 0) return;  // cannot be: submit() saw all of the value registered
      piece_(value_, cache_, run);
      value_ += run;
      cache_ += run;
      bytes_ -= run;
    }
  }

  const RegisteredChunks& chunks_;
  const Piece& piece_;
  std::byte* value_ = nullptr;
  std::byte* cache_ = nullptr;
  std::uint64_t bytes_ = 0;
};

// Row (page, head, token) number `row` of the part, in the order of the value.
std::uint64_t row_address(const CompiledPart& part, ValueOrder order, const std::uint32_t* numbers,
                          std::uint64_t row) {
  if (order == ValueOrder::kHeadTokenChannel) {
    const std::uint64_t token = row % part.tokens, rest = row / part.tokens;
    return row_in_cache(part, numbers[rest % part.pages_per_value], rest / part.pages_per_value,
                        token);
  }
  const std::uint64_t head = row % part.heads, rest = row / part.heads;
  return row_in_cache(part, numbers[rest / part.tokens], head, rest % part.tokens);
}

void pieces_of_part(const CompiledPart& part, ValueOrder order, const std::uint32_t* numbers,
                    const Slice& slice, std::byte* value, PieceJoiner& joiner) {
  const std::uint64_t begin = std::max(slice.begin, part.value_offset);
  const std::uint64_t end = std::min(slice.end, part.value_offset + part.bytes);
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t row = (at - part.value_offset) / part.row_bytes;
    const std::uint64_t in_row = (at - part.value_offset) % part.row_bytes;
    const std::uint64_t bytes = std::min(part.row_bytes - in_row, end - at);
    const std::uint64_t address = row_address(part, order, numbers, row) + in_row;
    joiner.add(value + at, reinterpret_cast<std::byte*>(address), bytes);
    at += bytes;
  }
}

}  // namespace

void for_each_piece(const CudaJobParts& job, const Slice& slice,
                    const std::function<void(std::byte*, std::byte*, std::uint64_t)>& piece) {
  std::vector<std::uint32_t> pool_first;
  std::uint32_t numbers_per_value = 0;
  for (const KvPool& pool : job.layout->pools()) {
    pool_first.push_back(numbers_per_value);
    numbers_per_value += pool.pages_per_value;
  }
  PieceJoiner joiner(*job.chunks, piece);
  for (std::uint32_t i = 0; i < slice.count; ++i) {
    const std::size_t value = slice.first + i;
    const std::uint32_t* const numbers = job.numbers + value * numbers_per_value;
    for (const CompiledPart& part : job.layout->parts()) {
      pieces_of_part(part, job.layout->order(), numbers + pool_first[part.pool], slice,
                     job.values[value], joiner);
    }
  }
}

namespace {

// Chunks of the row at `address`; where the next goes.
std::byte** chunks_of_row(std::uint64_t address, std::uint64_t row_bytes, std::byte** to) {
  for (std::uint64_t at = 0; at < row_bytes; at += kChecksumChunkBytes) {
    *to++ = reinterpret_cast<std::byte*>(address + at);
  }
  return to;
}

// By additions only: a division for each of a page's chunks takes as long as the launch.
std::byte** chunks_of_part(const CompiledPart& part, ValueOrder order, const std::uint32_t* numbers,
                           std::byte** to) {
  const auto row = [&](std::uint32_t page, std::uint32_t head, std::uint32_t token) {
    to = chunks_of_row(row_in_cache(part, numbers[page], head, token), part.row_bytes, to);
  };
  if (order == ValueOrder::kHeadTokenChannel) {
    for (std::uint32_t head = 0; head < part.heads; ++head) {
      for (std::uint32_t page = 0; page < part.pages_per_value; ++page) {
        for (std::uint32_t token = 0; token < part.tokens; ++token) row(page, head, token);
      }
    }
  } else {
    for (std::uint32_t page = 0; page < part.pages_per_value; ++page) {
      for (std::uint32_t token = 0; token < part.tokens; ++token) {
        for (std::uint32_t head = 0; head < part.heads; ++head) row(page, head, token);
      }
    }
  }
  return to;
}

}  // namespace

void chunk_addresses(const CompiledLayout& layout, const std::uint32_t* numbers, std::byte** to) {
  const std::span<const KvPool> pools = layout.pools();
  for (const CompiledPart& part : layout.parts()) {
    std::uint32_t pool_first = 0;
    for (std::uint32_t pool = 0; pool < part.pool; ++pool)
      pool_first += pools[pool].pages_per_value;
    to = chunks_of_part(part, layout.order(), numbers + pool_first, to);
  }
}

bool rows_are_chunks(const CompiledLayout& layout) {
  return std::ranges::all_of(layout.parts(), [](const CompiledPart& part) {
    return part.row_bytes % kChecksumChunkBytes == 0;
  });
}

}  // namespace orlop::gpu
