// SPDX-License-Identifier: Apache-2.0
// The bulk kernel against the wide one, which the conformance suite holds to the text of
// kv_layout.h: the same bytes everywhere, in gaps and around strips too, and the same sums. Needs a
// device.
#include "gpu/cuda_bulk.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "gpu/compiled_layout.h"
#include "gpu/cuda_geometry.h"
#include "gpu/cuda_graph_launcher.h"
#include "gpu/cuda_resources.h"

namespace orlop::gpu {
namespace {

constexpr unsigned kBlocks = 8;
constexpr std::uint32_t kPages = 200;
constexpr std::uint64_t kSomewhere = 4096;  // until there is memory

template <typename T>
T must(Result<T> made) {
  CHECK(made.has_value(), made.error().message.c_str());
  return *std::move(made);
}
void must(cudaError_t error) {
  CHECK(error == cudaSuccess, cudaGetErrorString(error));
}

bool has_bulk_kernel() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return false;
  bool there = false;
  must(load_bulk_kernels(&there));
  return there;
}

std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.next());
  return bytes;
}

class OnDevice {
 public:
  explicit OnDevice(const std::vector<std::byte>& bytes)
      : size_(bytes.size()), memory_(must(make_device_memory(bytes.size()))) {
    must(cudaMemcpy(memory_.get(), bytes.data(), size_, cudaMemcpyHostToDevice));
  }
  std::byte* get() const { return memory_.get(); }
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> to(size_);
    must(cudaMemcpy(to.data(), memory_.get(), size_, cudaMemcpyDeviceToHost));
    return to;
  }

 private:
  std::size_t size_;
  DeviceMemory memory_;
};

// Rows of 4 KiB to 12 KiB with gaps between them, heads, tokens and pages in any numbers.
struct Scene {
  KvLayout layout;
  std::uint64_t cache_bytes = 0;

  explicit Scene(Rng& rng) {
    layout.order =
        rng.uniform(2) == 0 ? ValueOrder::kHeadTokenChannel : ValueOrder::kTokenHeadChannel;
    layout.pools = {{"a", static_cast<std::uint32_t>(1 + rng.uniform(3))}, {"b", 1}};
    const bool equal = rng.uniform(2) == 0;  // parts of whole chunks
    const std::uint64_t parts = 1 + rng.uniform(4);
    for (std::uint32_t i = 0; i < parts; ++i) layout.parts.push_back(part(rng, i, equal));
  }
  void place(std::uint64_t base) {
    for (KvPart& part : layout.parts) part.base += base - kSomewhere;
  }
  std::uint32_t numbers() const { return layout.pools[0].pages_per_value + 1; }

 private:
  KvPart part(Rng& rng, std::uint32_t layer, bool equal) {
    const auto gap = [&] { return 16 * rng.uniform(5); };
    KvPart to{.name = "part", .layer = layer, .base = kSomewhere + cache_bytes, .pages = kPages};
    to.pool = equal ? 0 : static_cast<std::uint32_t>(rng.uniform(2));
    to.row_bytes = equal ? 8192 : kLeastBulkRow + 16 * rng.uniform(512);
    to.heads = equal ? 1 : static_cast<std::uint32_t>(1 + rng.uniform(2));
    to.tokens = equal ? 1 : static_cast<std::uint32_t>(1 + rng.uniform(3));
    to.head_stride = to.row_bytes + gap();
    to.token_stride = to.heads * to.head_stride + gap();
    to.page_stride = to.tokens * to.token_stride + gap();
    cache_bytes += to.pages * to.page_stride + 16 * rng.uniform(5);
    return to;
  }
};

struct Outcome {
  std::vector<std::byte> cache, stage;
  std::vector<std::uint64_t> sums;
  bool operator==(const Outcome&) const = default;
};

// One slice of random values, moved by one kernel or the other out of the same memories.
class Move {
 public:
  explicit Move(std::uint64_t seed) : rng_(seed), scene_(rng_) {
    cache_before_ = random_bytes(scene_.cache_bytes, seed + 1);
    const std::uint64_t value_len = must(value_bytes(scene_.layout));
    begin_ = rng_.uniform(3) == 0 ? 16 * rng_.uniform(value_len / 16) : 0;
    end_ = rng_.uniform(3) == 0 ? begin_ + 16 * (1 + rng_.uniform((value_len - begin_) / 16))
                                : value_len;
    end_ = std::min(end_, value_len);
    count_ = static_cast<std::uint32_t>(1 + rng_.uniform(40));
    stage_before_ = random_bytes(count_ * (end_ - begin_) + 64, seed + 2);
    for (std::uint32_t i = 0; i < count_ * scene_.numbers(); ++i) {
      // Each page once a pool: values share none.
      numbers_.push_back(i % kPages);
    }
  }

  Outcome by(bool bulk, MoveKind kind) {
    const OnDevice cache(cache_before_), stage(stage_before_);
    Scene scene = scene_;
    scene.place(reinterpret_cast<std::uint64_t>(cache.get()));
    const auto layout =
        must(CompiledLayout::compile(scene.layout, must(value_bytes(scene.layout))));
    const auto geometry = must(DeviceGeometry::make(layout));
    EXPECT_EQ(geometry->unit(), 16u);
    EXPECT_GE(geometry->least_row_bytes(), kLeastBulkRow);
    const std::vector<std::byte> zeros(kPinned);
    const OnDevice device(zeros);
    const PinnedMemory pinned = must(make_pinned_memory(kPinned));
    MoveArguments a = arguments(*geometry, stage.get(), pinned.get());
    a.sums = reinterpret_cast<unsigned long long*>(device.get());
    a.arrived = reinterpret_cast<unsigned int*>(device.get() + kPinned - 8);
    EXPECT_TRUE(bulk_takes(a));
    must(bulk ? launch_bulk(a, kind, kBlocks, launcher_, nullptr)
              : launch_move(a, kind, 16, kBlocks, launcher_, nullptr));
    must(cudaDeviceSynchronize());
    EXPECT_EQ(*a.flag, a.ticket);
    EXPECT_EQ(device.bytes(), zeros) << "left for the next kernel";
    return {cache.bytes(), stage.bytes(), std::vector(a.sums_out, a.sums_out + count_)};
  }

 private:
  static constexpr std::size_t kPinned = 16384;

  MoveArguments arguments(const DeviceGeometry& geometry, std::byte* stage, std::byte* pinned) {
    MoveArguments a;
    a.parts = geometry.parts();
    a.part_of_chunk = geometry.part_of_chunk();
    a.equal_parts = geometry.equal_parts();
    a.by_chunks_of_part = geometry.by_chunks_of_part();
    a.begin = static_cast<std::uint32_t>(begin_);
    a.end = static_cast<std::uint32_t>(end_);
    a.count = count_;
    a.by_chunks =
        FastDivision::by(static_cast<std::uint32_t>((end_ + 4095) / 4096 - begin_ / 4096));
    a.numbers_per_value = geometry.numbers_per_value();
    a.stage = stage;
    a.pitch = end_ - begin_;
    a.token_first = geometry.token_first();
    a.flag = reinterpret_cast<std::uint64_t*>(pinned);
    a.ticket = 7;
    a.sums_out = a.flag + 1;
    if (numbers_.size() <= kInlineNumbers) {
      std::ranges::copy(numbers_, a.inline_numbers);
    } else {
      auto* const to = reinterpret_cast<std::uint32_t*>(pinned + kPinned / 2);
      std::ranges::copy(numbers_, to);
      a.numbers = to;
    }
    return a;
  }

  GraphLauncher launcher_;
  Rng rng_;
  Scene scene_;
  std::vector<std::byte> cache_before_, stage_before_;
  std::uint64_t begin_ = 0, end_ = 0;
  std::uint32_t count_ = 0;
  std::vector<std::uint32_t> numbers_;
};

TEST(BulkKernel, Moves_and_sums_as_the_wide_one) {
  if (!has_bulk_kernel()) GTEST_SKIP() << "no device with bulk copies";
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Move move(seed * 10);
    for (const MoveKind kind : {MoveKind::kGather, MoveKind::kScatter}) {
      const Outcome bulk = move.by(true, kind), wide = move.by(false, kind);
      // The addresses differ, the bytes must not.
      ASSERT_EQ(bulk.sums, wide.sums);
      ASSERT_TRUE(bulk.cache == wide.cache) << "cache, kind " << static_cast<int>(kind);
      ASSERT_TRUE(bulk.stage == wide.stage) << "stage, kind " << static_cast<int>(kind);
    }
  }
}

TEST(BulkKernel, Leaves_to_the_wide_one_what_it_cannot_take) {
  std::byte stage{};
  MoveArguments a;
  a.stage = &stage;
  a.end = 8192;
  a.count = 4;
  a.pitch = 8192;
  a.numbers_per_value = 1;
  EXPECT_TRUE(bulk_takes(a));
  const auto with = [&](auto change) {
    MoveArguments other = a;
    change(other);
    return bulk_takes(other);
  };
  EXPECT_FALSE(with([](MoveArguments& b) { b.stage = nullptr; }));
  EXPECT_FALSE(with([](MoveArguments& b) { b.begin = 8; }));
  EXPECT_FALSE(with([](MoveArguments& b) { b.end = 8184; }));
  EXPECT_FALSE(with([](MoveArguments& b) { b.count = kMostBulkNumbers + 1; }));
  EXPECT_FALSE(with([](MoveArguments& b) { b.pitch = std::uint64_t{1} << 30; }));
}

}  // namespace
}  // namespace orlop::gpu
