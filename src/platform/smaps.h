// SPDX-License-Identifier: Apache-2.0
// What a process's mappings take, from /proc/PID/smaps: the memory bench and the proof of huge
// pages stand on it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "orlop/error.h"

namespace orlop {

// All in bytes.
struct SmapsTotals {
  std::uint64_t size = 0;
  std::uint64_t rss = 0;
  std::uint64_t pss = 0;
  std::uint64_t shared_clean = 0;
  std::uint64_t shared_dirty = 0;
  std::uint64_t private_clean = 0;
  std::uint64_t private_dirty = 0;
  std::uint64_t anonymous = 0;
  std::uint64_t swap = 0;
  std::uint64_t anonymous_huge = 0;
  std::uint64_t shmem_pmd_mapped = 0;
  std::uint64_t file_pmd_mapped = 0;
  std::uint64_t shared_hugetlb = 0;   // not part of rss
  std::uint64_t private_hugetlb = 0;  // not part of rss
  SmapsTotals& operator+=(const SmapsTotals& other);
};

struct SmapsEntry {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::string permissions;  // "rw-s"
  std::string name;  // path, "/memfd:orlop-value (deleted)", "[heap]"; anonymous: "[anonymous]"
  std::uint64_t kernel_page_size = 0;
  bool dont_fork = false;     // VmFlags dc
  bool wipe_on_fork = false;  // VmFlags wf
  SmapsTotals totals;
};

// Pure. Lines it does not know are skipped; text without a single mapping is empty.
std::vector<SmapsEntry> parse_smaps(std::string_view text);

// pid 0: this process. Errors: kClosed (no such process), kRefused (not permitted), kSystem.
Result<std::vector<SmapsEntry>> read_smaps(pid_t pid);

std::map<std::string, SmapsTotals> sum_by_name(const std::vector<SmapsEntry>& entries);
SmapsTotals sum_of(const std::vector<SmapsEntry>& entries);

}  // namespace orlop
