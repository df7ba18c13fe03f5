// SPDX-License-Identifier: Apache-2.0
// Copies beside a model: a stream of bf16 matrix products (cuBLAS, loaded when it is there) alone
// and while copies run both ways.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>

#include "base/rng.h"
#include "gpu/bench/bench_groups.h"
#include "gpu/cuda_call.h"

namespace orlop::gpu {
namespace {

constexpr int kSize = 8192;
constexpr int kProducts = 60;
constexpr int kRounds = 9;

// The four calls of cuBLAS that are needed, by the names and numbers of its C interface.
class MatrixProducts {
 public:
  static Result<std::unique_ptr<MatrixProducts>> make();
  ~MatrixProducts() {
    if (handle_ != nullptr) destroy_(handle_);
  }
  MatrixProducts(const MatrixProducts&) = delete;
  MatrixProducts& operator=(const MatrixProducts&) = delete;

  Result<void> queue(int count) {
    constexpr int kNormal = 0, kBf16 = 14, kCompute32F = 68, kDefaultAlgorithm = -1;
    const float one = 1, zero = 0;
    for (int i = 0; i < count; ++i) {
      const int status = gemm_(handle_, kNormal, kNormal, kSize, kSize, kSize, &one, a_.get(),
                               kBf16, kSize, b_.get(), kBf16, kSize, &zero, c_.get(), kBf16, kSize,
                               kCompute32F, kDefaultAlgorithm);
      if (status != 0) {
        return fail(ErrorCode::kSystem, "cublasGemmEx: status " + std::to_string(status));
      }
    }
    return {};
  }
  // Milliseconds on the device of kProducts products.
  Result<double> timed() {
    ORLOP_CUDA(cudaEventRecord, begin_, stream_.get());
    BENCH_TRY(queue(kProducts));
    ORLOP_CUDA(cudaEventRecord, end_, stream_.get());
    ORLOP_CUDA(cudaEventSynchronize, end_);
    float ms = 0;
    ORLOP_CUDA(cudaEventElapsedTime, &ms, begin_, end_);
    return ms;
  }

 private:
  using Create = int (*)(void**);
  using Destroy = int (*)(void*);
  using SetStream = int (*)(void*, cudaStream_t);
  using Gemm = int (*)(void*, int, int, int, int, int, const void*, const void*, int, int,
                       const void*, int, int, const void*, void*, int, int, int, int);

  MatrixProducts() = default;
  Result<void> load();

  void* handle_ = nullptr;
  Destroy destroy_ = nullptr;
  Gemm gemm_ = nullptr;
  Stream stream_;
  DeviceMemory a_, b_, c_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

Result<void> MatrixProducts::load() {
  void* library = nullptr;
  const char* const own = std::getenv("ORLOP_BENCH_CUBLAS");
  for (const char* name : {own, "libcublas.so.13", "libcublas.so.12", "libcublas.so",
                           "/usr/local/cuda/lib64/libcublas.so"}) {
    if (library == nullptr && name != nullptr) library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
  }
  if (library == nullptr) {
    return fail(ErrorCode::kSystem,
                "cuBLAS was not found; name it with ORLOP_BENCH_CUBLAS=/path/libcublas.so");
  }
  const auto create = reinterpret_cast<Create>(dlsym(library, "cublasCreate_v2"));
  const auto set_stream = reinterpret_cast<SetStream>(dlsym(library, "cublasSetStream_v2"));
  destroy_ = reinterpret_cast<Destroy>(dlsym(library, "cublasDestroy_v2"));
  gemm_ = reinterpret_cast<Gemm>(dlsym(library, "cublasGemmEx"));
  if (create == nullptr || set_stream == nullptr || destroy_ == nullptr || gemm_ == nullptr) {
    return fail(ErrorCode::kSystem, "cuBLAS lacks a call of its C interface");
  }
  if (const int status = create(&handle_); status != 0) {
    return fail(ErrorCode::kSystem, "cublasCreate: status " + std::to_string(status));
  }
  if (const int status = set_stream(handle_, stream_.get()); status != 0) {
    return fail(ErrorCode::kSystem, "cublasSetStream: status " + std::to_string(status));
  }
  return {};
}

// Numbers around 0 as weights have them: products of zeros run faster than real ones.
std::vector<std::uint16_t> random_bf16(std::size_t count) {
  Rng rng(5);
  std::vector<std::uint16_t> numbers(count);
  for (std::uint16_t& number : numbers) {
    const float value = static_cast<float>(rng.uniform(2000)) / 1000.0f - 1.0f;
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    number = static_cast<std::uint16_t>(bits >> 16);
  }
  return numbers;
}

Result<std::unique_ptr<MatrixProducts>> MatrixProducts::make() {
  std::unique_ptr<MatrixProducts> products(new MatrixProducts);
  constexpr std::size_t kCount = std::size_t{kSize} * kSize;
  const std::vector<std::uint16_t> numbers = random_bf16(kCount);
  for (DeviceMemory* matrix : {&products->a_, &products->b_, &products->c_}) {
    auto memory = make_device_memory(kCount * 2);
    BENCH_TRY(memory);
    *matrix = std::move(*memory);
    ORLOP_CUDA(cudaMemcpy, matrix->get(), numbers.data(), kCount * 2, cudaMemcpyHostToDevice);
  }
  auto stream = make_stream(false);
  BENCH_TRY(stream);
  products->stream_ = std::move(*stream);
  ORLOP_CUDA(cudaEventCreate, &products->begin_);
  ORLOP_CUDA(cudaEventCreate, &products->end_);
  BENCH_TRY(products->load());
  return products;
}

// Copies both ways until it goes; how many bytes arrived meanwhile.
class Traffic {
 public:
  // step: queues some more copies and waits for earlier ones; their bytes.
  using Step = std::function<Result<std::uint64_t>()>;
  explicit Traffic(Step step)
      : thread_([this, step = std::move(step)] {
          while (!ending_) {
            const Result<std::uint64_t> bytes = step();
            if (!bytes) break;
            bytes_ += *bytes;
          }
        }) {}
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;
  ~Traffic() {
    ending_ = true;
    thread_.join();
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::atomic<bool> ending_{false};
  std::atomic<std::uint64_t> bytes_{0};
  std::thread thread_;
};

// Two jobs of each direction at any time, so that the link never idles.
class JobFeeder {
 public:
  JobFeeder(PageCopier& copier, const BenchBatch& restore, const BenchBatch& backup)
      : copier_(copier), restore_(restore), backup_(backup) {}
  ~JobFeeder() {
    while (!jobs_.empty()) (void)end_one();
  }
  Result<std::uint64_t> step() {
    while (jobs_.size() < 4) {
      const BenchBatch& batch = jobs_.size() % 2 == 0 ? restore_ : backup_;
      auto job = copier_.submit(batch.request());
      BENCH_TRY(job);
      jobs_.push_back(std::move(*job));
    }
    BENCH_TRY(end_one());
    BENCH_TRY(end_one());
    return restore_.bytes() + backup_.bytes();
  }

 private:
  Result<void> end_one() {
    Result<void> done = wait_for(*jobs_.front());
    jobs_.pop_front();
    return done;
  }
  PageCopier& copier_;
  const BenchBatch& restore_;
  const BenchBatch& backup_;
  std::deque<std::shared_ptr<CopyJob>> jobs_;
};

Result<double> products_alone(MatrixProducts& products) {
  BENCH_TRY(products.queue(10));
  return products.timed();
}

struct Beside {
  double ms = 0, rate = 0;  // of the products; GB/s that were copied meanwhile
};
Result<Beside> products_beside(MatrixProducts& products, const Traffic::Step& step) {
  const Traffic traffic(step);
  while (traffic.bytes() == 0) std::this_thread::yield();
  BENCH_TRY(products.queue(10));
  const std::uint64_t before = traffic.bytes();
  const auto start = std::chrono::steady_clock::now();
  auto ms = products.timed();
  BENCH_TRY(ms);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return Beside{.ms = *ms,
                .rate = static_cast<double>(traffic.bytes() - before) / took.count() / 1e9};
}

// Judged is the median over rounds of the time beside to the mean of those alone before and after:
// the GPU's clock follows its power and heat, and alone the products drift by 7 % in some seconds.
Result<void> gemm_row(BenchRun& run, MatrixProducts& products, const std::string& name, double bar,
                      const Traffic::Step& step) {
  std::vector<double> alone, beside, rates, ratios;
  auto before = products_alone(products);
  BENCH_TRY(before);
  alone.push_back(*before);
  for (int round = 0; round < kRounds; ++round) {
    auto with = products_beside(products, step);
    BENCH_TRY(with);
    auto without = products_alone(products);
    BENCH_TRY(without);
    ratios.push_back(2 * with->ms / (alone.back() + *without));
    beside.push_back(with->ms);
    rates.push_back(with->rate);
    alone.push_back(*without);
  }
  for (std::vector<double>* values : {&alone, &beside, &rates, &ratios}) std::ranges::sort(*values);
  GpuBenchRow row;
  row.group = "gemm";
  row.name = "60 products of 8192^3 bf16 beside " + name;
  row.unit = "ms";
  row.value = beside[kRounds / 2];
  row.baseline = alone[kRounds / 2];
  row.judged = ratios[kRounds / 2];
  row.note = "copies meanwhile: " + std::to_string(static_cast<int>(rates[kRounds / 2])) + " GB/s";
  if (bar > 0) {
    row.bar_kind = BarKind::kAtMost;
    row.bar = bar;
  }
  run.rows.push_back(std::move(row));
  return {};
}

}  // namespace

Result<void> bench_gemm(BenchRun& run) {
  auto products = MatrixProducts::make();
  BENCH_TRY(products);
  const BenchShape shape = opaque_shape(4096);
  const std::size_t values = (std::uint64_t{256} << 20) / shape.value_bytes();
  auto both = both_ways(run, shape, values, BenchPlacement::kAdjacent);
  BENCH_TRY(both);
  const auto& [restore, backup] = *both;
  BENCH_TRY((*products)->queue(30));
  ORLOP_CUDA(cudaDeviceSynchronize);
  {
    JobFeeder feeder(run.copier, restore, backup);
    BENCH_TRY(gemm_row(run, **products, "ours, both ways", 1.05, [&] { return feeder.step(); }));
  }
  {
    // Short slices: kernels that take a multiprocessor for a shorter time, more often.
    CudaCopierOptions options{.device = run.options.device, .engine = EngineKind::kStaged};
    options.staging_bytes = std::uint64_t{32} << 20;
    options.slots = 4;
    auto short_slices = make_cuda_copier(options);
    BENCH_TRY(short_slices);
    JobFeeder feeder(**short_slices, restore, backup);
    BENCH_TRY(gemm_row(run, **products, "ours with slices of 8 MiB, both ways", 0,
                       [&] { return feeder.step(); }));
  }
  const auto plain = [&]() -> Result<std::uint64_t> {
    BENCH_TRY(plain_both(restore, backup));
    return restore.bytes() + backup.bytes();
  };
  BENCH_TRY(gemm_row(run, **products, "plain cudaMemcpyAsync, both ways", 0, plain));
  for (const unsigned blocks : {8u, 32u}) {
    auto direct = bench_copier(run.options.device, EngineKind::kDirect, blocks);
    BENCH_TRY(direct);
    JobFeeder feeder(**direct, restore, backup);
    BENCH_TRY(gemm_row(run, **products,
                       "direct kernels, " + std::to_string(blocks) + " blocks, both ways", 0,
                       [&] { return feeder.step(); }));
  }
  return {};
}

}  // namespace orlop::gpu
