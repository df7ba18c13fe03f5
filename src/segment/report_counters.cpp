// SPDX-License-Identifier: Apache-2.0
#include "segment/report_counters.h"

#include <cmath>
#include <numeric>

namespace orlop::segment {
namespace {

static_assert(kMissReasonCount <= kReportReasons && kOutcomeCount <= kReportReasons);

// Calls visit(the word of each) for every counter. The one list of them.
template <class Visit, class... Counters>
void for_each_counter(Visit&& visit, Counters&... of) {
  visit(of.gets...);
  visit(of.keys_asked...);
  visit(of.keys_hit...);
  visit(of.bytes_read...);
  visit(of.mismatches...);
  visit(of.puts...);
  visit(of.keys_put...);
  visit(of.keys_stored...);
  visit(of.bytes_written...);
  for (std::size_t i = 0; i < kMissReasonCount; ++i) visit(of.misses[i]...);
  for (std::size_t i = 0; i < kOutcomeCount; ++i) visit(of.outcomes[i]...);
  for (std::size_t i = 0; i < kLatencyBuckets; ++i) visit(of.get.counts[i]...);
  for (std::size_t i = 0; i < kLatencyBuckets; ++i) visit(of.put.counts[i]...);
  visit(of.get.sum_ns...);
  visit(of.put.sum_ns...);
}

void store(Atomic<std::uint64_t>& word, std::uint64_t value) {
  word.store(value, std::memory_order_relaxed);
}
std::uint64_t load(const Atomic<std::uint64_t>& word) {
  return word.load(std::memory_order_relaxed);
}

}  // namespace

std::uint64_t LatencyCounts::count() const {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}, saturated_sum);
}

std::uint64_t LatencyCounts::percentile(double percent) const {
  const auto all = static_cast<double>(count());
  if (all == 0) return 0;
  const double rank = all * percent / 100;
  double before = 0;
  for (std::size_t i = 0; i + 1 < counts.size(); ++i) {
    const auto here = static_cast<double>(counts[i]);
    if (here > 0 && before + here >= rank) {
      const double low = i == 0 ? 0 : static_cast<double>(latency_bound(i - 1));
      const double high = static_cast<double>(latency_bound(i));
      return static_cast<std::uint64_t>(std::llround(low + (high - low) * (rank - before) / here));
    }
    before += here;
  }
  return latency_bound(counts.size() - 2);  // in the last, open bucket: at least this
}

void store_report(ClientReport& report, const ReportCounters& counters,
                  const ReportGauges& gauges) {
  for_each_counter(store, report, counters);
  store(report.attaches, gauges.attaches);
  store(report.open_read_plans, gauges.open_read_plans);
  store(report.open_handles, gauges.open_handles);
  store(report.oldest_read_plan, gauges.oldest_read_plan);
  store(report.published, gauges.published);
}

ReportCounters load_counters(const ClientReport& report) {
  ReportCounters out;
  for_each_counter([](std::uint64_t& to, const Atomic<std::uint64_t>& from) { to = load(from); },
                   out, report);
  return out;
}

ReportGauges load_gauges(const ClientReport& report) {
  return {.attaches = load(report.attaches),
          .open_read_plans = load(report.open_read_plans),
          .open_handles = load(report.open_handles),
          .oldest_read_plan = load(report.oldest_read_plan),
          .published = load(report.published)};
}

ReportCounters grown(const ReportCounters& later, const ReportCounters& earlier) {
  ReportCounters out;
  for_each_counter([](std::uint64_t& to, std::uint64_t a, std::uint64_t b) { to = a - b; }, out,
                   later, earlier);
  return out;
}

void fold(const ReportCounters& latest, ReportCounters& highest, ReportCounters& sum) {
  for_each_counter(
      [](std::uint64_t value, std::uint64_t& seen, std::uint64_t& total) {
        if (value <= seen) return;
        total = saturated_sum(total, value - seen);
        seen = value;
      },
      latest, highest, sum);
}

}  // namespace orlop::segment
