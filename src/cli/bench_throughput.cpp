// SPDX-License-Identifier: Apache-2.0
// bench: rows redis_*: two workers and a full node against redis, in turn.
#include <algorithm>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/units.h"
#include "cli/bench_bed.h"
#include "cli/bench_redis.h"
#include "cli/bench_run.h"
#include "cli/bench_worker.h"
#include "cli/status_fields.h"
#include "cli/worker_pool.h"
#include "node/option_values.h"
#include "platform/clock.h"

namespace orlop::cli {
namespace {

constexpr std::uint64_t kCapacity = 256 * kMiB;  // of the node, and redis' maxmemory
constexpr std::uint64_t kSlots = kCapacity / kBenchValueLen;
constexpr std::uint32_t kWorkers = 2;
// Of redis, both larger than its memory, which holds some 50,000 such values. Sets mostly evict, as
// ours do. Gets find their key three times of four: a miss is no value, and cheap.
constexpr std::uint64_t kSetKeySpace = 4 * kSlots, kGetKeySpace = kSlots;
constexpr MonoNs kLimit = 120 * kNsPerSecond;

class ThroughputBench {
 public:
  explicit ThroughputBench(BenchRun& run) : run_(run), deadline_(monotonic_ns() + kLimit) {}

  Result<void> measure() {
    auto redis = RedisServer::start(kCapacity);
    if (!redis) return std::unexpected(redis.error());
    // Full before anything counts: redis here, the node by its workers.
    const std::uint64_t requests = run_.pick<std::uint64_t>(400'000, 100'000);
    const RedisLoad sets{.requests = requests, .key_space = kSetKeySpace};
    const RedisLoad gets{.requests = requests, .key_space = kGetKeySpace};
    auto node = PrivateNode::start({"--capacity", node::exact_bytes(kCapacity), "--max-value-len",
                                    node::exact_bytes(kBenchValueLen), "--policy", "lru"},
                                   false, deadline_);
    if (!node) return std::unexpected(node.error());
    if (auto started = start_workers(*node); !started) return started;
    for (int round = 0; round < run_.pick(4, 1); ++round) {
      if (auto filled = fill(*redis, kSetKeySpace); !filled) return filled;
      if (auto done = turn(*redis, "SET", Word::kBenchPut, sets, put_); !done) return done;
      if (auto filled = fill(*redis, kGetKeySpace); !filled) return filled;
      if (auto done = turn(*redis, "GET", Word::kBenchGet, gets, get_); !done) return done;
    }
    if (auto ended = pool_->tell_all(Word::kBenchEnd, deadline_); !ended) return ended;
    if (auto joined = pool_->join(deadline_); !joined) return joined;
    if (auto evicting = check_evicting(*node); !evicting) return evicting;
    for (const auto& [row, best] : {std::pair{"redis_put", &put_}, std::pair{"redis_get", &get_}}) {
      if (run_.wants(row)) run_.set(row, best->ours / best->theirs, best->sides());
    }
    return node->stop();
  }

 private:
  // Until redis holds nothing but keys of this space, as many as fit. Not timed.
  static Result<void> fill(const RedisServer& redis, std::uint64_t key_space) {
    const auto done = redis.benchmark("SET", {.requests = 3 * kSlots, .key_space = key_space});
    return done ? Result<void>{} : std::unexpected(done.error());
  }

  // Each side is judged by its best turn: a single ratio would be the best where redis was
  // disturbed most.
  struct Best {
    double ours = 0, theirs = 0;

    std::string sides() const {
      return format_count(static_cast<std::uint64_t>(ours)) + "/s against " +
             format_count(static_cast<std::uint64_t>(theirs)) + "/s";
    }
  };

  Result<void> start_workers(const PrivateNode& node) {
    std::vector<std::vector<std::string>> commands;
    for (std::uint32_t i = 0; i < kWorkers; ++i) {
      const BenchWorkerConfig config{.socket = node.socket(),
                                     .index = i,
                                     .phase_ms = run_.pick<std::uint64_t>(1500, 500),
                                     .window_pages = kSlots / 4,
                                     .preload = kSlots * 3 / 4};
      commands.push_back({"bench-throughput-worker", to_text(config)});
    }
    auto pool = WorkerPool::start(commands);
    if (!pool) return std::unexpected(pool.error());
    pool_.emplace(std::move(*pool));
    for (std::uint32_t i = 0; i < kWorkers; ++i) {
      if (auto ready = await(Word::kReady); !ready) return std::unexpected(ready.error());
    }
    return {};
  }

  Result<WorkerMessage> await(Word word) {
    auto incoming = pool_->next(deadline_);
    if (!incoming) return std::unexpected(incoming.error());
    if (incoming->message.word == word) return std::move(incoming->message);
    return fail(ErrorCode::kCorrupt, "a worker said something unexpected");
  }

  // One turn of ours, one of redis'.
  Result<void> turn(const RedisServer& redis, const char* test, Word word, const RedisLoad& load,
                    Best& best) {
    const auto ours = our_rate(word);
    if (!ours) return std::unexpected(ours.error());
    const auto theirs = redis.benchmark(test, load);
    if (!theirs) return std::unexpected(theirs.error());
    best.ours = std::max(best.ours, *ours);
    best.theirs = std::max(best.theirs, *theirs);
    return {};
  }

  // Values per second of both workers, which run at the same time.
  Result<double> our_rate(Word word) {
    if (auto told = pool_->tell_all(word, deadline_); !told) return std::unexpected(told.error());
    double rate = 0;
    for (std::uint32_t i = 0; i < kWorkers; ++i) {
      const auto message = await(Word::kBenchCount);
      if (!message) return std::unexpected(message.error());
      const auto count = message->as<BenchCountBody>();
      if (!count) return std::unexpected(count.error());
      rate += static_cast<double>(count->values) * 1e9 / static_cast<double>(count->spent);
    }
    return rate;
  }

  Result<void> check_evicting(const PrivateNode& node) {
    const auto status = node.status();
    if (!status) return std::unexpected(status.error());
    if (status_fields::counter(*status, "slots_evicted") >= kSlots / 2) return {};
    return fail(ErrorCode::kSystem, "the node hardly evicted: its figures mean nothing");
  }

  BenchRun& run_;
  const MonoNs deadline_;
  std::optional<WorkerPool> pool_;
  Best put_, get_;
};

}  // namespace

Result<void> bench_throughput(BenchRun& run) {
  return ThroughputBench(run).measure();
}

}  // namespace orlop::cli
