// SPDX-License-Identifier: Apache-2.0
// One worker of rows redis_*: puts and gets batches of 64 values of 4 KiB as fast as it can, every
// value copied and its checksum made or checked.
#include <algorithm>
#include <span>
#include <vector>

#include "base/rng.h"
#include "cli/bench_bed.h"
#include "cli/bench_worker.h"
#include "cli/worker_process.h"
#include "platform/clock.h"

namespace orlop::cli {
namespace {

constexpr std::size_t kBatch = 64;
// Different buffers for some batches, as an engine has them: beyond the first cache.
constexpr std::size_t kBufferBatches = 8;
// One batch put for so many got: eviction goes on under the gets, and its time counts.
constexpr std::uint64_t kGetsPerPut = 16;
constexpr std::uint32_t kFirstSeries = 100;

class ThroughputWorker {
 public:
  ThroughputWorker(const BenchWorkerConfig& config, WorkerLink& link, AttachedWorker attached)
      : config_(config),
        link_(link),
        client_(std::move(attached.client)),
        ns_(attached.ns),
        rng_(config.index + 1),
        buffers_(kBufferBatches * kBatch * kBenchValueLen) {
    for (std::byte& byte : buffers_) byte = static_cast<std::byte>(rng_.next());
  }

  Result<void> run() {
    while (next_ < config_.preload) {
      if (auto put = put_batch(); !put) return std::unexpected(put.error());
    }
    if (auto told = link_.send(Word::kReady, monotonic_ns() + kWordLimit); !told) return told;
    for (;;) {
      const auto message = link_.receive(monotonic_ns() + kWordLimit);
      if (!message) return std::unexpected(message.error());
      if (!*message) return fail(ErrorCode::kDeadline, "the parent says nothing");
      const Word word = (*message)->word;
      if (word == Word::kBenchEnd) return link_.send(Word::kDone, monotonic_ns() + kWordLimit);
      const auto counted = phase(word == Word::kBenchGet);
      if (!counted) return std::unexpected(counted.error());
      if (auto told = link_.send(Word::kBenchCount, *counted, monotonic_ns() + kWordLimit); !told) {
        return told;
      }
    }
  }

 private:
  Result<BenchCountBody> phase(bool gets) {
    BenchCountBody count;
    const MonoNs begin = monotonic_ns();
    const MonoNs end = begin + config_.phase_ms * kNsPerMs;
    MonoNs now = begin;
    for (std::uint64_t turn = 0; now < end; ++turn, now = monotonic_ns()) {
      const bool putting = !gets || turn % kGetsPerPut == 0;
      const auto values = putting ? put_batch() : get_batch();
      if (!values) return std::unexpected(values.error());
      if (putting == gets) continue;
      count.values += *values;
      count.missed += kBatch - *values;
    }
    count.spent = now - begin;
    return count;
  }

  std::span<std::byte> buffer(std::size_t i) {
    return std::span(buffers_).subspan((turn_ % kBufferBatches * kBatch + i) * kBenchValueLen,
                                       kBenchValueLen);
  }

  void choose_keys(std::uint64_t first) {
    keys_.clear();
    for (std::size_t i = 0; i < kBatch; ++i) {
      keys_.push_back(bench_key(kFirstSeries + config_.index, first + i));
    }
    texts_ = texts_of(keys_);
    ++turn_;
  }

  Result<std::uint64_t> put_batch() {
    choose_keys(next_);
    next_ += kBatch;
    auto plan = client_.put_start(ns_, texts_);
    if (!plan) return std::unexpected(plan.error());
    for (std::size_t i = 0; i < kBatch; ++i) {
      if (plan->outcome(i) != Outcome::kPrepared) continue;
      if (auto copied = plan->copy_in(i, buffer(i)); !copied) {
        return std::unexpected(copied.error());
      }
    }
    const auto future = client_.put_commit(*plan);
    if (!future) return std::unexpected(future.error());
    const auto outcomes = future->wait(kBenchWait);
    if (!outcomes) return fail(ErrorCode::kDeadline, "a commit was not answered");
    return static_cast<std::uint64_t>(std::ranges::count(*outcomes, Outcome::kStored));
  }

  // A batch put lately, chosen at random.
  Result<std::uint64_t> get_batch() {
    const std::uint64_t window = std::min(next_, config_.window_pages) / kBatch;
    choose_keys(next_ - (1 + rng_.uniform(window)) * kBatch);
    auto handle = client_.get_start(ns_, texts_);
    if (!handle) return std::unexpected(handle.error());
    auto plan = client_.get_transfer(*handle);
    if (!plan) return std::unexpected(plan.error());
    std::uint64_t right = 0;
    for (std::size_t i = 0; i < plan->size(); ++i) {
      const auto matched = plan->copy_out(i, buffer(i));
      if (!matched) return std::unexpected(matched.error());
      right += *matched ? 1 : 0;
    }
    if (auto released = client_.release_views(*plan); !released) {
      return std::unexpected(released.error());
    }
    return right;
  }

  const BenchWorkerConfig config_;
  WorkerLink& link_;
  Client client_;
  Namespace ns_;
  Rng rng_;
  std::vector<std::byte> buffers_;
  std::uint64_t next_ = 0, turn_ = 0;
  std::vector<PageKey> keys_;
  std::vector<Key> texts_;
};

}  // namespace

int bench_throughput_worker_main(const std::string& config_text) {
  return run_worker([&config_text](WorkerLink& link) -> Result<void> {
    const auto config = parse_bench_worker_config(config_text);
    if (!config) return std::unexpected(config.error());
    auto attached =
        attach_bench_client(config->socket, "bench-worker-" + std::to_string(config->index));
    if (!attached) return std::unexpected(attached.error());
    return ThroughputWorker(*config, link, std::move(*attached)).run();
  });
}

}  // namespace orlop::cli
