// SPDX-License-Identifier: Apache-2.0
// bench: rows plan_* and memory_*, on nodes filled with so many pages.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/bytes.h"
#include "base/rng.h"
#include "base/units.h"
#include "cli/bench_bed.h"
#include "cli/bench_memory.h"
#include "cli/bench_run.h"
#include "cli/bench_syscalls.h"
#include "cli/interrupt.h"
#include "platform/clock.h"

namespace orlop::cli {
namespace {

constexpr std::uint32_t kSeries = 1;
constexpr std::size_t kPlanPages = 2000;
constexpr std::uint64_t kFreeSlots = 4096;
constexpr std::size_t kPinnedForChannel = 50'000;
// Requests of memory_per_request: a leak of one small allocation each would show as tens of bytes.
constexpr int kIdleRequests = 20'000;

double seconds_since(MonoNs begin) {
  return static_cast<double>(monotonic_ns() - begin) / 1e9;
}

// Distinct random pages of the first `slots` of the series, in random order.
std::vector<PageKey> pick(Rng& rng, std::uint64_t slots, std::size_t count) {
  std::unordered_set<std::uint64_t> seen;
  std::vector<PageKey> keys;
  while (keys.size() < count) {
    const std::uint64_t i = rng.uniform(slots);
    if (seen.insert(i).second) keys.push_back(bench_key(kSeries, i));
  }
  return keys;
}

class SlotsBench {
 public:
  struct Size {
    std::uint64_t slots;
    std::string_view plan_row;  // empty: none
    std::string_view memory_row;
  };

  SlotsBench(BenchRun& run, const Size& size) : run_(run), size_(size) {}

  Result<void> measure() {
    auto bed = start_bench_bed(size_.slots, kFreeSlots);
    if (!bed) return std::unexpected(bed.error());
    const auto before = read_node_memory(bed->node);
    if (!before) return std::unexpected(before.error());
    run_.say("filling " + format_count(size_.slots) + " pages");
    if (auto filled = fill_untouched(bed->worker, kSeries, 0, size_.slots); !filled) return filled;
    if (wants(size_.memory_row)) {
      if (auto done = memory(*bed, *before); !done) return done;
    }
    if (wants_plan()) {
      if (auto done = plans(*bed); !done) return done;
    }
    if (size_.plan_row == "plan_2000_400k" && run_.wants("plan_syscalls")) {
      if (auto done = system_calls(*bed); !done) return done;
    }
    return bed->node.stop();
  }

  bool wanted() const {
    return wants(size_.memory_row) || wants_plan() ||
           (size_.plan_row == "plan_2000_400k" && run_.wants("plan_syscalls")) ||
           (size_.memory_row == "memory_per_slot_100k" && run_.wants("memory_per_request"));
  }

 private:
  bool wants(std::string_view row) const { return !row.empty() && run_.wants(row); }
  bool wants_plan() const { return wants(size_.plan_row); }

  Result<void> memory(BenchBed& bed, const NodeMemory& before) {
    const auto after = settled_node_memory(bed.node);
    if (!after) return std::unexpected(after.error());
    const auto grown = [this](std::uint64_t now, std::uint64_t then) {
      return (static_cast<double>(now) - static_cast<double>(then)) /
             static_cast<double>(size_.slots);
    };
    char parts[160];
    std::snprintf(parts, sizeof parts, "server %.1f + keeper %.1f + control area %.1f",
                  grown(after->server_private, before.server_private),
                  grown(after->keeper_private, before.keeper_private),
                  grown(after->control, before.control));
    run_.set(size_.memory_row, grown(after->counted(), before.counted()), parts);
    if (size_.memory_row != "memory_per_slot_100k") return {};
    if (run_.wants("memory_per_request")) {
      if (auto done = requests(bed); !done) return done;
    }
    return channel(bed);
  }

  // Requests that leave nothing behind: reserved and given back, looked up, read.
  Result<void> requests(BenchBed& bed) {
    const auto serve = [&bed](int first, int count) -> Result<void> {
      for (int i = 0; i < count; ++i) {
        const PageKey fresh = bench_key(
            kSeries + 1, static_cast<std::uint64_t>(first) + static_cast<std::uint64_t>(i));
        const Key key = fresh.text();
        auto plan = bed.client().put_start(bed.ns(), std::span(&key, 1));
        if (!plan) return std::unexpected(plan.error());
        if (auto aborted = bed.client().put_abort(*plan); !aborted) return aborted;
        auto handle = bed.client().get_start(bed.ns(), std::span(&key, 1));
        if (!handle) return std::unexpected(handle.error());
      }
      return {};
    };
    // The first ones may grow buffers to their working size, as may the first looks, with clients
    // to tell about, on the admin server's threads.
    if (auto done = serve(0, kIdleRequests / 10); !done) return done;
    if (auto looked = settled_node_memory(bed.node); !looked) {
      return std::unexpected(looked.error());
    }
    const auto before = settled_node_memory(bed.node);
    if (!before) return std::unexpected(before.error());
    if (auto done = serve(kIdleRequests, kIdleRequests); !done) return done;
    const auto after = settled_node_memory(bed.node);
    if (!after) return std::unexpected(after.error());
    const double grown =
        static_cast<double>(after->counted()) - static_cast<double>(before->counted());
    run_.set("memory_per_request", grown / kIdleRequests,
             format_count(kIdleRequests) + " puts begun and aborted, as many gets");
    return {};
  }

  // A channel's pages, apart: what a pinned page costs there.
  Result<void> channel(BenchBed& bed) {
    const auto before = read_node_memory(bed.node);
    if (!before) return std::unexpected(before.error());
    Rng rng(3);
    const auto keys = pick(rng, size_.slots, std::min<std::size_t>(kPinnedForChannel, 25'000));
    auto handle = bed.client().get_start(bed.ns(), texts_of(keys));
    if (!handle) return std::unexpected(handle.error());
    const auto after = read_node_memory(bed.node);
    if (!after) return std::unexpected(after.error());
    const std::uint32_t pinned = handle->result().transferable_len;
    char text[160];
    std::snprintf(text, sizeof text,
                  "channels apart: %s with no pin; %.1f B a pinned page (%u pinned)",
                  format_bytes(before->channels).c_str(),
                  (static_cast<double>(after->channels) - static_cast<double>(before->channels)) /
                      std::max(1u, pinned),
                  pinned);
    run_.remark(text);
    return {};
  }

  // find + pin + transfer + touch + release. Seconds; an error if a page was missed.
  Result<double> plan_once(BenchBed& bed, const std::vector<PageKey>& keys) {
    const std::vector<Key> texts = texts_of(keys);
    const MonoNs begin = monotonic_ns();
    auto handle = bed.client().get_start(bed.ns(), texts);
    if (!handle) return std::unexpected(handle.error());
    auto plan = bed.client().get_transfer(*handle);
    if (!plan) return std::unexpected(plan.error());
    const std::size_t pages = plan->size();
    if (auto released = bed.client().release_views(*plan); !released) {
      return std::unexpected(released.error());
    }
    const double took = seconds_since(begin);
    if (pages == keys.size()) return took;
    return fail(ErrorCode::kSystem, "a resident page was missed: " + std::to_string(pages) +
                                        " of " + std::to_string(keys.size()) + " (" +
                                        std::string(to_string(handle->result().reason)) + ")");
  }

  Result<void> plans(BenchBed& bed) {
    std::unordered_map<std::uint64_t, std::uint32_t> table;
    table.reserve(size_.slots);
    for (std::uint64_t i = 0; i < size_.slots; ++i) {
      table.emplace(bench_key(kSeries, i).lo, static_cast<std::uint32_t>(i));
    }
    Rng rng(11);
    BestRatio best;
    std::uint64_t sink = 0;
    for (int round = 0; round < run_.pick(7, 3); ++round) {
      if (interrupted()) return fail(ErrorCode::kClosed, "interrupted");
      std::vector<double> ours, theirs;
      for (int i = 0; i < run_.pick(60, 20); ++i) {
        const auto took = plan_once(bed, pick(rng, size_.slots, kPlanPages));
        if (!took) return std::unexpected(took.error());
        ours.push_back(*took);
        const std::vector<PageKey> keys = pick(rng, size_.slots, kPlanPages);
        const MonoNs begin = monotonic_ns();
        for (const PageKey& key : keys) sink += table.find(key.lo)->second;
        theirs.push_back(seconds_since(begin));
      }
      best.add(median(std::move(ours)), median(std::move(theirs)));
    }
    asm volatile("" : : "r"(sink) : "memory");  // the look-ups have to happen
    run_.set(size_.plan_row, best.ratio(), best.sides());
    return {};
  }

  Result<void> system_calls(BenchBed& bed) {
    constexpr int kPlans = 200;
    const auto works = makes_system_calls([] { (void)::getppid(); });
    if (!works) return std::unexpected(works.error());
    if (!*works) return fail(ErrorCode::kSystem, "a system call made on purpose was not seen");
    Rng rng(12);
    int with_calls = 0;
    for (int i = 0; i < kPlans; ++i) {
      const auto texts_owner = pick(rng, size_.slots, kPlanPages);
      // Once before: what a plan allocates for the first time it keeps for the next.
      if (auto warm = plan_once(bed, texts_owner); !warm) return std::unexpected(warm.error());
      const std::vector<Key> texts = texts_of(texts_owner);
      bool hit = false;
      const auto called = makes_system_calls([&bed, &texts, &hit] {
        auto handle = bed.client().get_start(bed.ns(), texts);
        if (!handle) return;
        auto plan = bed.client().get_transfer(*handle);
        hit = plan && plan->size() == texts.size() && bed.client().release_views(*plan);
      });
      if (!called) return std::unexpected(called.error());
      if (!hit) return fail(ErrorCode::kSystem, "a resident page was missed");
      if (*called) ++with_calls;
    }
    run_.set("plan_syscalls", with_calls, "plans with a system call, of " + std::to_string(kPlans));
    return {};
  }

  BenchRun& run_;
  const Size size_;
};

}  // namespace

Result<void> bench_slots(BenchRun& run) {
  const std::uint64_t large = run.pick<std::uint64_t>(4'000'000, 500'000);
  const SlotsBench::Size sizes[] = {
      {100'000, "", "memory_per_slot_100k"},
      {(1u << 18) + 1, "", "memory_per_slot_2p18_1"},
      {400'000, "plan_2000_400k", ""},
      {large, "plan_2000_4m", "memory_per_slot_4m"},
  };
  for (const SlotsBench::Size& size : sizes) {
    SlotsBench bench(run, size);
    if (!bench.wanted()) continue;
    if (auto done = bench.measure(); !done) return done;
  }
  return {};
}

}  // namespace orlop::cli
