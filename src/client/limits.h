// SPDX-License-Identifier: Apache-2.0
// Limits and periods of liborlop. Everything that a caller can make more of is in here or in the
// sizes of the channel.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"
#include "protocol/messages.h"

namespace orlop::client {

inline constexpr std::size_t kMaxKeyBytes = 4096;
inline constexpr std::uint32_t kMaxKeys = protocol::kMaxKeysPerPut;  // per call, reads too
inline constexpr std::size_t kMaxCohort = 1024;                      // ranks of one read
inline constexpr std::size_t kMaxNamespaces = 1024;                  // open at once per client
inline constexpr std::uint32_t kMaxOpenReadsPerThread = 65'536;      // handles and plans
inline constexpr std::size_t kMaxRegisteredCopies = 1'000'000;
inline constexpr std::size_t kMaxPageJobs = 4096;  // backups and restores under way, a PageCache

// Read states kept for reuse by a thread, and how large their buffers may be: a burst must not
// leave memory behind for ever.
inline constexpr std::size_t kSpareReadStates = 8;
inline constexpr std::size_t kSpareReadPages = 4096;

// Attach. The first retry is quick because a killed server is back within milliseconds.
inline constexpr MonoNs kFirstRetry = 2 * kNsPerMs;
inline constexpr MonoNs kLastRetry = kNsPerSecond;
// A server may be waiting for its keeper; it gives up after protocol::kHandshakeLimit itself.
inline constexpr MonoNs kHandshakeWait = 6 * kNsPerSecond;

inline constexpr MonoNs kReopenWait = 100 * kNsPerMs;  // of one namespace after an attach

// The housekeeping thread: while answers are due that nobody waits for, and otherwise.
inline constexpr MonoNs kBusyTick = 20 * kNsPerMs;
inline constexpr MonoNs kIdleTick = kNsPerSecond;

// The report to the node (segment/client_report.h), and how many gets go by between two that are
// timed: two looks at the clock cost a tenth of a get of one key.
inline constexpr MonoNs kReportPeriod = kIdleTick / 2;  // at most at every second tick
inline constexpr std::uint64_t kTimedGets = 8;          // power of two

// Longest space wait asked of the node; it uses min(this, its own limit).
inline constexpr MonoNs kSpaceWait = 10 * kNsPerMs;

// How often close() looks whether the last copy under it is over; one of 1 MiB takes as long.
inline constexpr std::chrono::microseconds kCopyPoll{100};

// A caller's time, of any size, as one that can be added to the clock: none if negative, a year at
// most.
constexpr MonoNs duration_of(std::chrono::milliseconds time) {
  constexpr std::int64_t kYearMs = std::int64_t{365} * 24 * 3'600 * 1'000;
  return static_cast<MonoNs>(std::clamp<std::int64_t>(time.count(), 0, kYearMs)) * kNsPerMs;
}

// Ledger chunks that a thread keeps when it has no pins.
inline constexpr std::uint32_t kKeptChunks = 4;

}  // namespace orlop::client
