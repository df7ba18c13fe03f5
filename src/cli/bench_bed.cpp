// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_bed.h"

#include <algorithm>

#include "base/rng.h"
#include "cli/interrupt.h"
#include "cli/replay_memory.h"
#include "node/option_values.h"
#include "platform/clock.h"

namespace orlop::cli {
namespace {

constexpr std::uint64_t kFillBatch = 4096;
constexpr MonoNs kStartLimit = 30 * kNsPerSecond;

}  // namespace

PageKey bench_key(std::uint32_t series, std::uint64_t i) {
  std::uint64_t state = std::uint64_t{series} << 40 | i;
  const std::uint64_t lo = splitmix64(state);
  return {lo, splitmix64(state)};
}

std::vector<Key> texts_of(const std::vector<PageKey>& keys) {
  std::vector<Key> texts;
  texts.reserve(keys.size());
  for (const PageKey& key : keys) texts.push_back(key.text());
  return texts;
}

Result<PrivateNode> start_bench_node(std::uint64_t slots, std::uint64_t free_slots) {
  const auto memory = replay_memory(slots, free_slots, kBenchValueLen);
  if (!memory) return std::unexpected(memory.error());
  return PrivateNode::start(
      {"--capacity", node::exact_bytes(memory->capacity), "--reserve",
       node::exact_bytes(memory->reserve_bytes), "--max-value-len",
       node::exact_bytes(kBenchValueLen), "--touch", "off", "--policy", "lru"},
      false, monotonic_ns() + kStartLimit);
}

Result<AttachedWorker> attach_bench_client(const std::string& socket, const std::string& name) {
  return attach_worker(socket, name, kBenchValueLen, kBenchWait, monotonic_ns() + kStartLimit);
}

Result<BenchBed> start_bench_bed(std::uint64_t slots, std::uint64_t free_slots) {
  auto node = start_bench_node(slots, free_slots);
  if (!node) return std::unexpected(node.error());
  auto worker = attach_bench_client(node->socket(), "bench");
  if (!worker) return std::unexpected(worker.error());
  return BenchBed{std::move(*node), std::move(*worker)};
}

Result<void> fill_untouched(AttachedWorker& worker, std::uint32_t series, std::uint64_t first,
                            std::uint64_t count) {
  std::vector<PageKey> keys;
  for (std::uint64_t done = 0; done < count; done += keys.size()) {
    if (interrupted()) return fail(ErrorCode::kClosed, "interrupted");
    keys.clear();
    for (std::uint64_t i = done; i < std::min(count, done + kFillBatch); ++i) {
      keys.push_back(bench_key(series, first + i));
    }
    auto plan = worker.client.put_start(worker.ns, texts_of(keys));
    if (!plan) return std::unexpected(plan.error());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (auto summed = plan->set_checksum(i, i); !summed) {
        return fail(summed.error().code,
                    "fill: a page got no memory: " + std::string(to_string(plan->outcome(i))) +
                        "; " + std::string(plan->explanation()));
      }
    }
    const auto future = worker.client.put_commit(*plan);
    if (!future) return std::unexpected(future.error());
    const auto outcomes = future->wait(kBenchWait);
    if (!outcomes) return fail(ErrorCode::kDeadline, "fill: a commit was not answered");
    if (std::ranges::count(*outcomes, Outcome::kStored) != std::ssize(keys)) {
      return fail(ErrorCode::kSystem, "fill: a page was not stored");
    }
  }
  return {};
}

}  // namespace orlop::cli
