// SPDX-License-Identifier: Apache-2.0
// What a worker process of the crash matrix and its host tell each other: a page of shared memory,
// so that it survives the death of either.
#pragma once

#include <atomic>
#include <cstdint>

#include "orlop/error.h"
#include "platform/mapping.h"
#include "platform/memory_file.h"

namespace orlop::matrix {

enum class Order : std::uint32_t {
  kRun,
  kVerify,  // witness: read every kept page once, then answer
  kStop,    // give everything back and end with exit code 0
};

struct WorkerReport {
  std::atomic<Order> order;
  std::atomic<std::uint64_t> rounds;           // whole loops
  std::atomic<std::uint64_t> hits;             // values read and compared
  std::atomic<std::uint64_t> wrong;            // of them, not the key's bytes
  std::atomic<std::uint64_t> stored;           // values whose commit was answered "stored"
  std::atomic<std::uint64_t> longest_call_ns;  // of put_start and of the wait for its commit
  std::atomic<std::uint64_t> calls_over;       // that took longer than kCallLimit
  std::atomic<std::uint64_t> verified;         // answers to kVerify
  std::atomic<std::uint64_t> missing;          // kept pages that the last one did not find
  std::atomic<std::uint32_t> kept;             // 1: the kept pages are stored
};
static_assert(sizeof(WorkerReport) <= 4096);

// A call of a worker that needs the node waits this long at most (ClientOptions::call_budget).
inline constexpr std::uint64_t kCallBudgetMs = 500;
// From here on it was late: ten times its deadline, for a machine that has other work.
inline constexpr std::uint64_t kCallLimitNs = 5'000'000'000;

class SharedReport {
 public:
  static Result<SharedReport> create();
  static Result<SharedReport> adopt(int fd);
  WorkerReport& operator*() const { return *reinterpret_cast<WorkerReport*>(mapping_.data()); }
  WorkerReport* operator->() const { return &**this; }
  int fd() const { return file_.fd(); }

 private:
  static Result<SharedReport> map(MemoryFile file);
  MemoryFile file_;
  Mapping mapping_;
};

}  // namespace orlop::matrix
