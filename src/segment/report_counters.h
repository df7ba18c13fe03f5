// SPDX-License-Identifier: Apache-2.0
// The contents of a client's report page as plain numbers: what the client publishes, what the node
// reads, and the node's sums over all clients.
//
// To the node a report is outside input: any word may hold anything, at any time. Hence fold(): a
// counter that goes backwards adds nothing until it passes its highest value, and sums saturate at
// 2^64 - 1, so sums never fall.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "orlop/outcome.h"
#include "segment/client_report.h"

namespace orlop::segment {

// For sums of what clients told: they stay at 2^64 - 1 instead of beginning again.
constexpr std::uint64_t saturated_sum(std::uint64_t a, std::uint64_t b) {
  return a > ~std::uint64_t{0} - b ? ~std::uint64_t{0} : a + b;
}

// Latencies in the buckets of client_report.h.
struct LatencyCounts {
  std::array<std::uint64_t, kLatencyBuckets> counts{};
  std::uint64_t sum_ns = 0;

  void record(MonoNs ns, std::uint64_t times = 1) {
    counts[latency_bucket(ns)] += times;
    sum_ns += ns * times;
  }
  std::uint64_t count() const;
  // Nanoseconds, by linear interpolation inside a bucket, so within a factor of two; 0 when empty.
  // percent in (0, 100].
  std::uint64_t percentile(double percent) const;
};

struct ReportCounters {
  std::uint64_t gets = 0, keys_asked = 0, keys_hit = 0, bytes_read = 0, mismatches = 0;
  std::uint64_t puts = 0, keys_put = 0, keys_stored = 0, bytes_written = 0;
  std::array<std::uint64_t, kMissReasonCount> misses{};
  std::array<std::uint64_t, kOutcomeCount> outcomes{};
  LatencyCounts get, put;
};

struct ReportGauges {
  std::uint64_t attaches = 0, open_read_plans = 0, open_handles = 0;
  MonoNs oldest_read_plan = 0;  // start time, 0 = none is open
  MonoNs published = 0;
};

// Client: one publication.
void store_report(ClientReport& report, const ReportCounters& counters, const ReportGauges& gauges);
// Node.
ReportCounters load_counters(const ClientReport& report);
ReportGauges load_gauges(const ClientReport& report);

// later - earlier, word by word. Requires: later's words are not smaller (the client's own counts).
ReportCounters grown(const ReportCounters& later, const ReportCounters& earlier);
// Adds to `sum` what grew beyond `highest`, and raises `highest`.
void fold(const ReportCounters& latest, ReportCounters& highest, ReportCounters& sum);

}  // namespace orlop::segment
