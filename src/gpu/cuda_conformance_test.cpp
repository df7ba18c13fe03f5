// SPDX-License-Identifier: Apache-2.0
// The CUDA engines against the suite that every engine passes. Where there is no device there are
// no instances; a machine that must have one says so with ORLOP_GPU_TESTS=required.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "base/check.h"
#include "gpu/conformance/copier_conformance.h"
#include "gpu/cuda_copier.h"
#include "gpu/host_registration.h"

namespace orlop::gpu::conformance {
namespace {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CopierConformance);

void must(cudaError_t error) {
  CHECK(error == cudaSuccess, cudaGetErrorString(error));
}

bool has_device() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}

TEST(CudaDevice, Is_there_where_it_must_be) {
  const char* const wish = std::getenv("ORLOP_GPU_TESTS");
  if (wish == nullptr || std::string_view(wish) != "required") GTEST_SKIP() << "not required";
  EXPECT_TRUE(has_device());
}

// So long a stream is kept from its next step: a copy that does not wait for it is ahead by far.
void CUDART_CB dawdle(void*) {
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
}

class DeviceCache final : public CacheMemory {
 public:
  explicit DeviceCache(std::size_t bytes) : size_(bytes) {
    void* memory = nullptr;
    must(cudaMalloc(&memory, bytes));
    memory_ = static_cast<std::byte*>(memory);
  }
  DeviceCache(const DeviceCache&) = delete;
  DeviceCache& operator=(const DeviceCache&) = delete;
  ~DeviceCache() override { must(cudaFree(memory_)); }

  std::uint64_t address() const override { return reinterpret_cast<std::uint64_t>(memory_); }
  std::size_t size() const override { return size_; }
  void upload(std::size_t offset, std::span<const std::byte> bytes) override {
    must(cudaMemcpy(memory_ + offset, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
    must(cudaDeviceSynchronize());  // a copy from pageable memory may return early
  }
  void download(std::size_t offset, std::span<std::byte> bytes) override {
    must(cudaMemcpy(bytes.data(), memory_ + offset, bytes.size(), cudaMemcpyDeviceToHost));
  }
  void write_in_stream(void* stream, std::size_t offset,
                       std::span<const std::byte> bytes) override {
    const auto in = static_cast<cudaStream_t>(stream);
    must(cudaLaunchHostFunc(in, dawdle, nullptr));
    must(cudaMemcpyAsync(memory_ + offset, pinned(bytes).data(), bytes.size(),
                         cudaMemcpyHostToDevice, in));
  }
  void read_in_stream(void* stream, std::size_t offset, std::span<std::byte> bytes) override {
    const auto in = static_cast<cudaStream_t>(stream);
    must(cudaMemcpyAsync(bytes.data(), memory_ + offset, bytes.size(), cudaMemcpyDeviceToHost, in));
    must(cudaStreamSynchronize(in));
  }

 private:
  // Pageable memory would make the copy wait for the stream before it returns.
  std::span<std::byte> pinned(std::span<const std::byte> bytes) {
    void* memory = nullptr;
    must(cudaMallocHost(&memory, bytes.size()));
    uploads_.emplace_back(static_cast<std::byte*>(memory));
    std::copy(bytes.begin(), bytes.end(), uploads_.back().get());
    return {uploads_.back().get(), bytes.size()};
  }
  struct PinnedEnd {
    void operator()(std::byte* memory) const { must(cudaFreeHost(memory)); }
  };
  std::byte* memory_ = nullptr;
  std::size_t size_;
  std::vector<std::unique_ptr<std::byte, PinnedEnd>> uploads_;
};

// Memory around the border of two registered chunks: copies have to be cut there.
class BorderMemory {
 public:
  static constexpr std::size_t kSpan = std::size_t{64} << 20;  // on each side

  static BorderMemory& only() {
    static BorderMemory* const memory = new BorderMemory;
    return *memory;
  }
  std::span<std::byte> around(std::size_t bytes) {
    CHECK(bytes / 2 <= kSpan, "suite's memory");
    return memory_.subspan(HostRegistration::kChunkBytes - bytes / 2 / 4096 * 4096, bytes);
  }
  bool taken = false;

 private:
  BorderMemory() {
    const std::size_t bytes = HostRegistration::kChunkBytes + kSpan;
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(at != MAP_FAILED, "mmap");
    memory_ = {static_cast<std::byte*>(at), bytes};
    auto registered = HostRegistration::register_memory(memory_, 0);
    CHECK(registered.has_value(), registered.error().message.c_str());
    registration_ = *registered;
  }
  std::span<std::byte> memory_;
  std::shared_ptr<HostRegistration> registration_;
};

class RegisteredValues final : public ValueMemory {
 public:
  explicit RegisteredValues(std::size_t bytes) {
    BorderMemory& border = BorderMemory::only();
    CHECK(!border.taken, "one value memory at a time");
    border.taken = true;
    bytes_ = border.around(bytes);
  }
  RegisteredValues(const RegisteredValues&) = delete;
  RegisteredValues& operator=(const RegisteredValues&) = delete;
  ~RegisteredValues() override { BorderMemory::only().taken = false; }
  std::span<std::byte> bytes() override { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

class CudaUnderTest final : public EngineUnderTest {
 public:
  explicit CudaUnderTest(CudaCopierOptions options) : options_(std::move(options)) {}
  ~CudaUnderTest() override {
    for (const cudaStream_t stream : streams_) must(cudaStreamDestroy(stream));
  }
  EngineKind kind() const override { return options_.engine.value_or(EngineKind::kStaged); }
  std::unique_ptr<PageCopier> make_copier() override {
    auto copier = make_cuda_copier(options_);
    CHECK(copier.has_value(), copier.error().message.c_str());
    return std::move(*copier);
  }
  std::unique_ptr<CacheMemory> cache_memory(std::size_t bytes) override {
    return std::make_unique<DeviceCache>(bytes);
  }
  std::unique_ptr<ValueMemory> value_memory(std::size_t bytes) override {
    return std::make_unique<RegisteredValues>(bytes);
  }
  void* make_stream() override {
    cudaStream_t stream = nullptr;
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    streams_.push_back(stream);
    return stream;
  }

 private:
  const CudaCopierOptions options_;
  std::vector<cudaStream_t> streams_;
};

EngineFactory factory(std::string name, CudaCopierOptions options) {
  return {std::move(name), [options] { return std::make_unique<CudaUnderTest>(options); }};
}

std::vector<EngineFactory> engines() {
  if (!has_device()) return {};
  constexpr std::uint64_t kStaging = 32 << 20;
  // A tiny ring and window: values are cut, slots reused, slices submitted as others end.
  return {factory("staged", {.engine = EngineKind::kStaged, .staging_bytes = kStaging}),
          factory("staged_tiny", {.engine = EngineKind::kStaged,
                                  .staging_bytes = 128 << 10,
                                  .window_bytes = 256 << 10,
                                  .slots = 2,
                                  .blocks = 3}),
          factory("direct", {.engine = EngineKind::kDirect, .staging_bytes = kStaging}),
          factory("direct_tiny", {.engine = EngineKind::kDirect,
                                  .staging_bytes = 128 << 10,
                                  .window_bytes = 256 << 10,
                                  .slots = 2}),
          factory("pieces", {.engine = EngineKind::kPieces, .staging_bytes = kStaging}),
          factory("pieces_tiny", {.engine = EngineKind::kPieces,
                                  .staging_bytes = 128 << 10,
                                  .window_bytes = 256 << 10,
                                  .slots = 2}),
          factory("by_table", {.staging_bytes = kStaging}),
          // As an engine wants it that decodes meanwhile.
          factory("by_table_bursts", {.staging_bytes = kStaging, .backup_burst_bytes = 192 << 10}),
          // The caller's thread submits one slice, or nothing; the copier's thread the rest, while
          // streams wait for ranges and jobs are cancelled.
          factory("staged_handover", {.engine = EngineKind::kStaged,
                                      .staging_bytes = 128 << 10,
                                      .callers_bytes = 1,
                                      .slots = 2}),
          factory("direct_handover", {.engine = EngineKind::kDirect,
                                      .staging_bytes = 128 << 10,
                                      .callers_bytes = 1,
                                      .slots = 2}),
          factory("pieces_handover", {.engine = EngineKind::kPieces,
                                      .staging_bytes = 128 << 10,
                                      .callers_bytes = 1,
                                      .slots = 2}),
          factory("by_table_handover", {.staging_bytes = kStaging, .callers_bytes = 0})};
}

// A value of one page and the copier under it.
class OnePage {
 public:
  explicit OnePage(CudaCopierOptions options, std::size_t most_bytes = 1 << 20)
      : engine_(std::move(options)),
        cache_(engine_.cache_memory(most_bytes)),
        values_(engine_.value_memory(most_bytes)) {}
  Result<std::shared_ptr<CopyJob>> back_up(std::uint64_t bytes, void* stream = nullptr) {
    KvLayout layout;
    layout.parts.push_back(
        {.base = cache_->address(), .pages = 1, .page_stride = bytes, .row_bytes = bytes});
    auto compiled = CompiledLayout::compile(layout, bytes);
    CHECK(compiled.has_value(), "layout");
    layouts_.push_back(std::make_unique<CompiledLayout>(std::move(*compiled)));
    std::byte* const value = values_->bytes().data();
    const std::int64_t page[] = {0};
    const std::span<const std::int64_t> pages[] = {page};
    return copier_->submit({.direction = CopyDirection::kBackup,
                            .layout = layouts_.back().get(),
                            .values = {&value, 1},
                            .pages = pages,
                            .stream = stream},
                           [this](CopyJob&) { ++callbacks; });
  }
  void take_new_copier() { copier_ = engine_.make_copier(); }
  CudaUnderTest& engine() { return engine_; }
  std::uint64_t slices() const { return dynamic_cast<CudaCopier&>(*copier_).stats().slices; }
  std::atomic<int> callbacks{0};

 private:
  CudaUnderTest engine_;
  std::unique_ptr<CacheMemory> cache_;
  std::unique_ptr<ValueMemory> values_;
  std::vector<std::unique_ptr<CompiledLayout>> layouts_;  // until their jobs are done
  std::unique_ptr<PageCopier> copier_ = engine_.make_copier();
};

// Keeps a stream from its next step until it is released, 30 s at most.
class HeldStream {
 public:
  explicit HeldStream(cudaStream_t stream) : stream_(stream) {
    must(cudaLaunchHostFunc(stream, hold, &released_));
  }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;
  ~HeldStream() { release(); }
  void release() {
    released_ = true;
    must(cudaStreamSynchronize(stream_));
  }

 private:
  static void CUDART_CB hold(void* flag) {
    for (int i = 0; i < 30'000 && !*static_cast<std::atomic<bool>*>(flag); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  const cudaStream_t stream_;
  std::atomic<bool> released_{false};
};

// An engine's work is in the default stream for milliseconds; a layout's first job must not wait
// for it, nor for what cudaMemcpy and cudaMemset do there.
TEST(CudaCopier, First_job_of_a_layout_does_not_wait_for_the_default_stream) {
  if (!has_device()) GTEST_SKIP() << "there is no device";
  OnePage bed({.engine = EngineKind::kStaged, .staging_bytes = 32 << 20});
  const auto ends = [&](std::uint64_t bytes) {
    const auto job = bed.back_up(bytes);
    return job.has_value() && (*job)->wait(std::chrono::seconds(5));
  };
  ASSERT_TRUE(ends(8192));  // lists, events and code are there
  HeldStream held(cudaStreamLegacy);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(ends(16384));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// Short slices are for a link that has nothing else to do.
TEST(CudaCopier, Job_behind_another_has_no_short_slices) {
  if (!has_device()) GTEST_SKIP() << "there is no device";
  constexpr std::uint64_t kBytes = 32 << 20;
  OnePage bed({.engine = EngineKind::kStaged, .staging_bytes = 24 << 20}, kBytes);
  void* const stream = bed.engine().make_stream();
  HeldStream held(static_cast<cudaStream_t>(stream));
  const auto first = bed.back_up(kBytes, stream);
  const std::uint64_t alone = bed.slices();
  const auto second = bed.back_up(kBytes);
  const std::uint64_t behind = bed.slices() - alone;
  held.release();
  ASSERT_TRUE(first.has_value() && second.has_value());
  for (const auto& job : {*first, *second}) {
    ASSERT_TRUE(job->wait(std::chrono::seconds(10)));
    EXPECT_TRUE(job->result().has_value());
  }
  // Of 2, 4 and 8 MiB; of 8 MiB less a chunk, and a rest.
  EXPECT_EQ(alone, 6u);
  EXPECT_EQ(behind, 5u);
}

// Engines capture their graphs at their start, in the mode in which a call of any thread that makes
// memory fails, and the capture with it; a node may be found just then.
TEST(CudaCopier, Is_made_and_copies_while_another_thread_captures_a_graph) {
  if (!has_device()) GTEST_SKIP() << "there is no device";
  OnePage bed({.engine = EngineKind::kStaged, .staging_bytes = 32 << 20});
  const auto stream = static_cast<cudaStream_t>(bed.engine().make_stream());
  const auto memory = bed.engine().cache_memory(64);
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  std::thread other([&] {
    bed.take_new_copier();
    const auto job = bed.back_up(1 << 20);
    ASSERT_TRUE(job.has_value()) << job.error().message;
    EXPECT_TRUE((*job)->wait(std::chrono::seconds(10)));
    EXPECT_TRUE((*job)->result().has_value());
  });
  other.join();
  must(cudaMemsetAsync(reinterpret_cast<void*>(memory->address()), 1, 64, stream));
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  std::size_t nodes = 0;
  must(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 1u) << "what was captured, and nothing of ours";
  must(cudaGraphDestroy(graph));
}

// It does not have to wait for jobs before it, which an engine's stream may hold for long.
TEST(CudaCopier, Job_cancelled_in_the_queue_wakes_who_waits_for_it) {
  if (!has_device()) GTEST_SKIP() << "there is no device";
  OnePage bed({.engine = EngineKind::kStaged,
               .staging_bytes = 32 << 20,
               .window_bytes = 1,
               .callers_bytes = 1});
  void* const stream = bed.engine().make_stream();
  HeldStream held(static_cast<cudaStream_t>(stream));
  const auto first = bed.back_up(8192, stream);
  const auto second = bed.back_up(8192);
  ASSERT_TRUE(first.has_value() && second.has_value());
  std::atomic<bool> woken{false};
  std::thread waiter([&] { woken = (*second)->wait(std::chrono::seconds(10)); });
  // Past the time in which a waiter looks by itself; a slower one sees the job done at once.
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  (*second)->cancel();
  waiter.join();
  EXPECT_TRUE(woken);
  for (int i = 0; i < 10'000 && bed.callbacks == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(bed.callbacks, 1);
  EXPECT_FALSE((*first)->done()) << "it was held all the time, or this test shows nothing";
  EXPECT_EQ((*second)->result().error().code, ErrorCode::kClosed);
  held.release();
  EXPECT_TRUE((*first)->wait(std::chrono::seconds(10)));
  EXPECT_TRUE((*first)->result().has_value());
}

INSTANTIATE_TEST_SUITE_P(Cuda, CopierConformance, testing::ValuesIn(engines()), engine_name);

}  // namespace
}  // namespace orlop::gpu::conformance
