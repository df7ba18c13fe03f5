// SPDX-License-Identifier: Apache-2.0
// Whether a configuration fits into this machine, said before anything is allocated.
//
// A cache that is one page too big is not refused by the kernel: it is killed when the page is
// touched. So the sums are made here, against the smallest of what the cgroups (v1 and v2, own
// cgroup up to the root) and the machine leave, and refused with the numbers and the remedy.
// A snapshot: others may take the memory a moment later.
// Thread: any; reads files only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orlop/error.h"

namespace orlop {

// Files are read under root ("" = the real system), as root + "/proc/meminfo" and so on, and cgroup
// mount points of root + "/proc/self/mountinfo" also under root. Tests give a fake tree.
struct MemorySources {
  std::string root;
  // Whose cgroups: an entry of /proc that names a process. Its path is looked up below our own
  // mounts.
  std::string process = "self";
};

// One cgroup that limits memory.
struct CgroupLimit {
  std::string limit_file;         // full path of the file the limit was read from
  std::uint64_t limit = 0;        // bytes
  std::uint64_t usage = 0;        // bytes, page cache included
  std::uint64_t reclaimable = 0;  // of these, page cache of files that the kernel drops on demand
  // limit - (usage - reclaimable), not below 0.
  std::uint64_t available() const;
};

struct MemoryAvailability {
  std::uint64_t machine_total = 0;       // MemTotal
  std::uint64_t machine_available = 0;   // MemAvailable
  std::vector<CgroupLimit> limits;       // every limiting cgroup from the own one to the root
  std::uint64_t huge_page_bytes = 0;     // default huge page size
  std::uint64_t huge_available = 0;      // bytes in huge pages that are free and not reserved
  std::vector<CgroupLimit> huge_limits;  // hugetlb cgroups, for the default huge page size
  // RLIMIT_MEMLOCK (soft) minus what is locked already; none: unlimited or CAP_IPC_LOCK.
  std::optional<std::uint64_t> lockable;

  // The tightest cgroup of limits; null when none limits.
  const CgroupLimit* tightest() const;
  // min(machine_available, tightest cgroup).
  std::uint64_t ordinary_available() const;
};

// Errors: kSystem (a /proc file cannot be read or understood; cgroups that do not exist are no
// error).
Result<MemoryAvailability> measure_memory(const MemorySources& sources = {});

struct BudgetRequest {
  std::uint64_t value_bytes = 0;    // value area (memory.capacity, rounded to slabs)
  std::uint64_t control_bytes = 0;  // what the control area can become resident
  std::uint64_t private_bytes = 0;  // daemon's own memory and channels
  bool huge = false;                // the value area is made of reserved huge pages
  std::uint64_t locked_bytes = 0;   // what is really mlocked or registered, 0 if nothing
};

struct BudgetReport {
  std::uint64_t ordinary_needed = 0;
  std::uint64_t ordinary_available = 0;
  std::uint64_t huge_needed = 0;
  std::uint64_t huge_available = 0;
  std::uint64_t locked_needed = 0;
  std::string text;  // one line for the start log, with the tightest limit named
};

// Errors: kNoMemory; the message holds what is needed (part by part), what is available and by
// which limit, and the largest memory.capacity that would fit or the knob to turn.
Result<BudgetReport> check_budget(const BudgetRequest& request, const MemorySources& sources = {});
// The pure part.
Result<BudgetReport> check_budget_against(const BudgetRequest& request,
                                          const MemoryAvailability& available);

}  // namespace orlop
