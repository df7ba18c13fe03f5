// SPDX-License-Identifier: Apache-2.0
// What a client tells its node about itself: one page of its channel.
//
// Written by the client alone, with relaxed stores, by one thread at a time; the node reads it with
// relaxed loads and trusts nothing in it (report_counters.h). Words are independent: a
// reader may see some of a publication and not yet the rest.
//
// Freshness: the client library publishes all of it once a second from its housekeeping thread, and
// for the last time when it detaches. A killed client's last second is lost; a stopped client's
// block stands still, while the ages that the node computes from its start times go on.
//
// Counters count what this client object did and has not told an earlier node: they begin at 0 with
// the channel, include what happened before the first attach, and only grow.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"
#include "segment/atomics.h"

namespace orlop::segment {

// Room for more reasons than orlop/outcome.h has today (9 and 12): adding one needs no new layout.
inline constexpr std::size_t kReportReasons = 16;

// Latencies in powers of two. Bucket 0 holds everything below kLatencyFirst, bucket i >= 1
// [kLatencyFirst << (i - 1), kLatencyFirst << i), the last everything above: 128 ns .. 0.5 s.
inline constexpr std::size_t kLatencyBuckets = 24;
inline constexpr std::uint64_t kLatencyFirst = 128;  // ns; a plan of one key takes about so long
constexpr std::size_t latency_bucket(MonoNs ns) {
  const auto bucket = static_cast<std::size_t>(std::bit_width(ns / kLatencyFirst));
  return bucket < kLatencyBuckets ? bucket : kLatencyBuckets - 1;
}
// Exclusive upper bound of a bucket in nanoseconds; kNever of the last.
constexpr MonoNs latency_bound(std::size_t bucket) {
  return bucket + 1 < kLatencyBuckets ? kLatencyFirst << bucket : kNever;
}

struct ReportedLatency {
  std::array<Atomic<std::uint64_t>, kLatencyBuckets> counts;
  Atomic<std::uint64_t> sum_ns;
};

struct ClientReport {
  // Counters.
  Atomic<std::uint64_t> gets, keys_asked, keys_hit, bytes_read, mismatches;
  Atomic<std::uint64_t> puts, keys_put, keys_stored, bytes_written;
  std::array<Atomic<std::uint64_t>, kReportReasons> misses;    // by MissReason, one per get
  std::array<Atomic<std::uint64_t>, kReportReasons> outcomes;  // by Outcome, one per key
  ReportedLatency get;  // get_start: hash, look up, pin. A sample of the gets (client/limits.h)
  ReportedLatency put;  // put_start: until the answer is here. Every put that was answered
  // Gauges.
  Atomic<std::uint64_t> attaches;          // of the client object: 1 unless its keeper was replaced
  Atomic<std::uint64_t> open_read_plans;   // transferred, not released
  Atomic<std::uint64_t> open_handles;      // get_start answered, not transferred
  Atomic<std::uint64_t> oldest_read_plan;  // MonoNs of its get_start, 0 = no plan is open
  Atomic<std::uint64_t> published;         // MonoNs of the latest publication, 0 = none yet
};
static_assert(sizeof(ClientReport) <= kPageBytes);

}  // namespace orlop::segment
