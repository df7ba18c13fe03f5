// SPDX-License-Identifier: Apache-2.0
// bench: rows put128_*, put1_*, get1_*: one client, one node, against an echo over a Unix socket.
#include <optional>
#include <string>
#include <vector>

#include "cli/bench_affinity.h"
#include "cli/bench_bed.h"
#include "cli/bench_echo.h"
#include "cli/bench_run.h"
#include "cli/interrupt.h"
#include "cli/status_fields.h"
#include "platform/clock.h"

namespace orlop::cli {
namespace {

constexpr std::uint32_t kSeries = 2, kFillSeries = 3;
constexpr MonoNs kEmptyLimit = 10 * kNsPerSecond;
constexpr std::size_t kBatch = 128;
// One slice of a round: so many of each, in turn.
constexpr int kEchoes = 200, kBatches = 20, kSingles = 100, kGets = 20, kGetsTimed = 50;
constexpr int kSlices = 5;

enum class Placement { kOneCore, kTwoCores };

class LatencyBench {
 public:
  LatencyBench(BenchRun& run, Placement placement) : run_(run), placement_(placement) {}

  bool wanted() const {
    return run_.wants(row("put128")) || run_.wants(row("put1")) || run_.wants(row("get1"));
  }

  Result<void> measure() {
    const std::vector<unsigned> cpus = allowed_cpus();
    if (placement_ == Placement::kTwoCores && cpus.size() < 2) {
      return fail(ErrorCode::kRefused, "client and server on different cores need two CPUs");
    }
    const AffinityKept kept;
    // On one core everything is born there, so that nobody thinks that spinning could help.
    if (placement_ == Placement::kOneCore) {
      if (auto pinned = pin_process(0, cpus[0]); !pinned) return pinned;
    }
    auto bed = start_bench_bed(kSlots, kFreeSlots);
    if (!bed) return std::unexpected(bed.error());
    auto echo = EchoProcess::start();
    if (!echo) return std::unexpected(echo.error());
    if (auto pinned = pin(*bed, *echo, cpus); !pinned) return pinned;
    bed_ = &*bed;
    echo_ = &*echo;
    const auto done = rounds();
    if (done) report();
    bed_ = nullptr;
    echo_ = nullptr;
    if (!done) return done;
    return bed->node.stop();
  }

 private:
  // Of the largest round twice as many: eviction has its own rows.
  static constexpr std::uint64_t kSlots = 65'536, kFreeSlots = 4096;

  std::string row(const char* what) const {
    return what + std::string(placement_ == Placement::kOneCore ? "_a" : "_b");
  }

  Result<void> pin(const BenchBed& bed, const EchoProcess& echo,
                   const std::vector<unsigned>& cpus) {
    const unsigned theirs = placement_ == Placement::kOneCore ? cpus[0] : cpus[1];
    const auto file = node::read_status_file(bed.node.socket());
    if (!file) return std::unexpected(file.error());
    for (const pid_t pid :
         {static_cast<pid_t>(file->server_pid), static_cast<pid_t>(file->keeper_pid), echo.pid()}) {
      if (auto pinned = pin_process(pid, theirs); !pinned) return pinned;
    }
    return pin_process(0, cpus[0]);
  }

  Result<void> rounds() {
    // A node that has been full once: its rows, its index and its books are resident and at size.
    if (auto filled = fill_untouched(bed_->worker, kFillSeries, 0, kSlots); !filled) return filled;
    for (int round = 0; round < run_.pick(8, 2); ++round) {
      if (interrupted()) return fail(ErrorCode::kClosed, "interrupted");
      if (auto emptied = empty_node(); !emptied) return emptied;
      if (auto done = one_round(); !done) return done;
    }
    return {};
  }

  // Every slot free again, so that no round evicts.
  Result<void> empty_node() {
    if (auto flushed = bed_->client().flush(bed_->ns()); !flushed) {
      return std::unexpected(flushed.error());
    }
    const MonoNs deadline = monotonic_ns() + kEmptyLimit;
    for (;;) {
      const auto status = bed_->node.status();
      if (!status) return std::unexpected(status.error());
      using namespace status_fields;
      const Json& slots = at(at(*status, "memory"), "slots");
      if (known_number(slots, "committed") == 0u && known_number(slots, "retiring") == 0u)
        return {};
      if (monotonic_ns() > deadline) {
        return fail(ErrorCode::kDeadline, "the node does not free its flushed pages");
      }
    }
  }

  Result<void> one_round() {
    const PageKey resident = bench_key(kSeries, next_);
    if (auto put = put_some(1); !put) return std::unexpected(put.error());
    std::vector<double> echoes, batches, singles, gets;
    const auto echo = [this] { return echo_->round_trip(); };
    const auto batch = [this] { return put_some(kBatch); };
    const auto single = [this] { return put_one(); };
    const auto get = [this, &resident] { return get_one(resident); };
    for (int slice = 0; slice < kSlices; ++slice) {
      if (auto done = repeat(kEchoes, echoes, echo); !done) return done;
      if (auto done = repeat(kBatches, batches, batch); !done) return done;
      if (auto done = repeat(kEchoes, echoes, echo); !done) return done;
      if (auto done = repeat(kSingles, singles, single); !done) return done;
      if (auto done = await_stored(1); !done) return done;
      if (auto done = repeat(kGets, gets, get); !done) return done;
    }
    const double reference = median(std::move(echoes));
    put128_.add(median(std::move(batches)), reference);
    put1_.add(median(std::move(singles)), reference);
    get1_.add(median(std::move(gets)), reference);
    return {};
  }

  template <class Once>
  Result<void> repeat(int times, std::vector<double>& samples, Once once) {
    for (int i = 0; i < times; ++i) {
      const Result<double> took = once();
      if (!took) return std::unexpected(took.error());
      samples.push_back(*took);
    }
    return {};
  }

  // put_start and put_commit of fresh pages; no byte is written. The future is left in last_.
  Result<void> start_and_commit(const std::vector<Key>& texts) {
    auto plan = bed_->client().put_start(bed_->ns(), texts);
    if (!plan) return std::unexpected(plan.error());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (auto summed = plan->set_checksum(i, i); !summed) return summed;
    }
    auto future = bed_->client().put_commit(*plan);
    if (!future) return std::unexpected(future.error());
    last_ = std::move(*future);
    return {};
  }

  Result<void> await_stored(std::size_t count) {
    const auto outcomes = last_.wait(kBenchWait);
    if (!outcomes) return fail(ErrorCode::kDeadline, "a commit was not answered");
    for (const Outcome outcome : *outcomes) {
      if (outcome != Outcome::kStored) {
        return fail(ErrorCode::kSystem,
                    "a page was not stored: " + std::string(to_string(outcome)));
      }
    }
    return outcomes->size() == count ? Result<void>{}
                                     : fail(ErrorCode::kSystem, "an answer of another length");
  }

  const std::vector<Key>& fresh_keys(std::size_t count) {
    keys_.clear();
    for (std::size_t i = 0; i < count; ++i) keys_.push_back(bench_key(kSeries, next_++));
    texts_ = texts_of(keys_);
    return texts_;
  }

  Result<double> put_some(std::size_t count) {
    const std::vector<Key>& texts = fresh_keys(count);
    const MonoNs begin = monotonic_ns();
    if (auto put = start_and_commit(texts); !put) return std::unexpected(put.error());
    if (auto stored = await_stored(count); !stored) return std::unexpected(stored.error());
    return static_cast<double>(monotonic_ns() - begin) / 1e9;
  }

  // Until the commit is posted, as a worker does that goes on with its next page.
  Result<double> put_one() {
    const std::vector<Key>& texts = fresh_keys(1);
    const MonoNs begin = monotonic_ns();
    if (auto put = start_and_commit(texts); !put) return std::unexpected(put.error());
    return static_cast<double>(monotonic_ns() - begin) / 1e9;
  }

  // One of kGetsTimed in a row: a single one is shorter than reading the clock.
  Result<double> get_one(const PageKey& key) {
    const Key text = key.text();
    const MonoNs begin = monotonic_ns();
    for (int i = 0; i < kGetsTimed; ++i) {
      auto handle = bed_->client().get_start(bed_->ns(), std::span(&text, 1));
      if (!handle) return std::unexpected(handle.error());
      auto plan = bed_->client().get_transfer(*handle);
      if (!plan) return std::unexpected(plan.error());
      if (plan->size() != 1) return fail(ErrorCode::kSystem, "a resident page was missed");
      if (auto released = bed_->client().release_views(*plan); !released) {
        return std::unexpected(released.error());
      }
    }
    return static_cast<double>(monotonic_ns() - begin) / 1e9 / kGetsTimed;
  }

  void report() {
    const auto set = [this](const char* what, const BestRatio& best) {
      if (run_.wants(row(what))) run_.set(row(what), best.ratio(), best.sides());
    };
    set("put128", put128_);
    set("put1", put1_);
    set("get1", get1_);
  }

  BenchRun& run_;
  const Placement placement_;
  BenchBed* bed_ = nullptr;
  EchoProcess* echo_ = nullptr;
  std::uint64_t next_ = 0;
  std::vector<PageKey> keys_;
  std::vector<Key> texts_;
  Future last_;
  BestRatio put128_, put1_, get1_;
};

}  // namespace

Result<void> bench_latency(BenchRun& run) {
  for (const Placement placement : {Placement::kOneCore, Placement::kTwoCores}) {
    LatencyBench bench(run, placement);
    if (!bench.wanted()) continue;
    if (auto done = bench.measure(); !done) return done;
  }
  return {};
}

}  // namespace orlop::cli
