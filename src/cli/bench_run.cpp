// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_run.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "cli/interrupt.h"

namespace orlop::cli {
namespace {

constexpr auto kMost = BarSense::kAtMost;
constexpr auto kLeast = BarSense::kAtLeast;

// Issue 3 section 4; copy bars: copy_bench_bar().
constexpr BenchRow kRows[] = {
    {"plan_2000_400k", 1.5, kMost, "x"},
    {"plan_2000_4m", 1.5, kMost, "x"},
    {"plan_syscalls", 0, kMost, ""},
    {"put128_a", 6, kMost, "x"},
    {"put128_b", 5, kMost, "x"},
    {"put1_a", 2, kMost, "x"},
    {"put1_b", 4, kMost, "x"},
    {"get1_a", 0.15, kMost, "x"},
    {"get1_b", 0.02, kMost, "x"},
    {"copy_avx512_put_cached", 0.8, kLeast, "x"},
    {"copy_avx512_get_cached", 0.8, kLeast, "x"},
    {"copy_avx512_put_1gib", 1.2, kLeast, "x"},
    {"copy_avx512_get_1gib", 1.2, kLeast, "x"},
    {"copy_avx2_put_cached", 0.7, kLeast, "x"},
    {"copy_avx2_get_cached", 0.7, kLeast, "x"},
    {"copy_avx2_put_1gib", 1.05, kLeast, "x"},
    {"copy_avx2_get_1gib", 1.05, kLeast, "x"},
    {"redis_put", 3, kLeast, "x"},
    {"redis_get", 4, kLeast, "x"},
    {"memory_per_slot_100k", 128, kMost, "B"},
    {"memory_per_slot_2p18_1", 128, kMost, "B"},
    {"memory_per_slot_4m", 128, kMost, "B"},
    {"memory_per_request", 1, kMost, "B"},
    {"kill_first_put_s", 1, BarSense::kBelow, "s"},
    {"kill_lost_pages", 0, kMost, ""},
    {"kill_gap", 20, kMost, "ms"},
    {"kill_lookups_missed", 0, kMost, ""},
    {"kill_evicting_unexplained", 0, kMost, ""},
};

struct Group {
  std::string_view what;
  std::vector<std::string_view> prefixes;
  Result<void> (*measure)(BenchRun&);
};

const Group kGroups[] = {
    {"latency", {"put128_", "put1_", "get1_"}, bench_latency},
    {"copy and checksum", {"copy_"}, bench_copies},
    {"plans and memory", {"plan_", "memory_"}, bench_slots},
    {"against redis", {"redis_"}, bench_throughput},
    {"a killed server", {"kill_"}, bench_kill},
};

std::vector<std::string_view> wanted_rows(const BenchRun& run, const Group& group) {
  std::vector<std::string_view> rows;
  for (const BenchRow& row : kRows) {
    const bool ours = std::ranges::any_of(
        group.prefixes, [&row](std::string_view prefix) { return row.name.starts_with(prefix); });
    if (ours && run.wants(row.name)) rows.push_back(row.name);
  }
  return rows;
}

}  // namespace

std::span<const BenchRow> local_bench_rows() {
  return kRows;
}

Result<void> check_only(const std::vector<std::string>& only) {
  for (const std::string& wanted : only) {
    const bool known =
        !wanted.empty() && std::ranges::any_of(kRows, [&wanted](const BenchRow& row) {
          return row.name.starts_with(wanted);
        });
    if (known) continue;
    std::string names;
    for (const BenchRow& row : kRows) names += (names.empty() ? "" : ", ") + std::string(row.name);
    return fail(ErrorCode::kInvalidArgument,
                "no row's name begins with \"" + wanted + "\"; rows: " + names);
  }
  return {};
}

bool BenchRun::wants(std::string_view row) const {
  return options_.only.empty() ||
         std::ranges::any_of(options_.only,
                             [row](const std::string& wanted) { return row.starts_with(wanted); });
}

std::size_t BenchRun::index_of(std::string_view row) const {
  const auto found = std::ranges::find(kRows, row, &BenchRow::name);
  CHECK(found != std::end(kRows), "rows come from the table");
  return static_cast<std::size_t>(found - std::begin(kRows));
}

void BenchRun::set(std::string_view row, double value, std::string note) {
  const std::size_t i = index_of(row);
  bars_[i] = BenchBar{.name = std::string(row),
                      .value = value,
                      .bar = kRows[i].bar,
                      .sense = kRows[i].sense,
                      .unit = std::string(kRows[i].unit),
                      .note = std::move(note)};
}

void BenchRun::miss(std::string_view row, std::string why) {
  set(row, 0, std::move(why));
  bars_[index_of(row)]->value.reset();
}

void BenchRun::skip(std::string_view row, std::string why) {
  skipped_.push_back(kRows[index_of(row)].name);
  remark(std::string(row) + " skipped: " + std::move(why));
}

void BenchRun::miss_unset(std::span<const std::string_view> rows, const std::string& why) {
  for (const std::string_view row : rows) {
    if (!bars_[index_of(row)] && std::ranges::find(skipped_, row) == skipped_.end()) {
      miss(row, why);
    }
  }
}

BenchReport BenchRun::report() const {
  BenchReport report;
  for (const auto& bar : bars_) {
    if (bar) report.bars.push_back(*bar);
  }
  report.remarks = remarks_;
  return report;
}

Result<BenchReport> run_local_bench(const BenchOptions& options, Progress& progress) {
  const std::string machine = this_machine();  // its load before ours
  const std::string date = utc_date();
  BenchRun run(options, progress);
  for (const Group& group : kGroups) {
    const auto rows = wanted_rows(run, group);
    if (rows.empty()) continue;
    run.say(std::string(group.what));
    const auto measured = group.measure(run);
    if (interrupted()) return fail(ErrorCode::kClosed, "interrupted");
    run.miss_unset(rows, measured ? "not measured" : measured.error().message);
  }
  if (options.quick) run.remark("--quick: few rounds and small fills; no verdict");
  BenchReport report = run.report();
  report.machine = machine;
  report.date = date;
  return report;
}

}  // namespace orlop::cli
