// SPDX-License-Identifier: Apache-2.0
// `orlop bench local`: the bars of one host (docs/benchmarks/local.md says how each row is
// measured), and what the measuring groups share.
// Thread: main's (nodes and workers follow the thread that starts them).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/bench_bars.h"
#include "cli/progress.h"
#include "orlop/error.h"

namespace orlop::cli {

struct BenchOptions {
  bool quick = false;             // fewer rounds, smaller fills: for a look, not for a verdict
  std::vector<std::string> only;  // names of rows, or beginnings of names; empty: all
};

// A row before it is measured.
struct BenchRow {
  std::string_view name;
  double bar;
  BarSense sense;
  std::string_view unit;
};
std::span<const BenchRow> local_bench_rows();

// Errors: kInvalidArgument (an entry that begins no row's name; the names are listed).
Result<void> check_only(const std::vector<std::string>& only);

// Runs the groups that have wanted rows, one after the other. A group that fails leaves its rows
// without value and the reason as their note. Errors: kClosed (interrupted).
Result<BenchReport> run_local_bench(const BenchOptions& options, Progress& progress);

// What a group sees.
class BenchRun {
 public:
  BenchRun(const BenchOptions& options, Progress& progress)
      : options_(options), progress_(progress), bars_(local_bench_rows().size()) {}

  bool quick() const { return options_.quick; }
  bool wants(std::string_view row) const;
  // One of the two, by --quick.
  template <class T>
  T pick(T full, T quick_one) const {
    return options_.quick ? quick_one : full;
  }
  void set(std::string_view row, double value, std::string note);
  void miss(std::string_view row, std::string why);
  void skip(std::string_view row, std::string why);  // no bar on this machine: a remark instead
  void remark(std::string text) { remarks_.push_back(std::move(text)); }
  void say(const std::string& text) { progress_.say(text); }

  // Rows that a group was to measure and did not.
  void miss_unset(std::span<const std::string_view> rows, const std::string& why);
  BenchReport report() const;

 private:
  std::size_t index_of(std::string_view row) const;

  const BenchOptions& options_;
  Progress& progress_;
  std::vector<std::optional<BenchBar>> bars_;
  std::vector<std::string_view> skipped_;
  std::vector<std::string> remarks_;
};

// ---- the groups; each in its own file, each bounded in time
Result<void> bench_slots(BenchRun& run);       // plan_*, memory_*
Result<void> bench_latency(BenchRun& run);     // put128_*, put1_*, get1_*
Result<void> bench_copies(BenchRun& run);      // copy_*
Result<void> bench_throughput(BenchRun& run);  // redis_*
Result<void> bench_kill(BenchRun& run);        // kill_*

}  // namespace orlop::cli
