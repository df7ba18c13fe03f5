// SPDX-License-Identifier: Apache-2.0
#include "platform/memory_budget.h"

#include <algorithm>
#include <string>

#include "base/bytes.h"
#include "base/units.h"
#include "platform/memory_files_text.h"
#include "platform/small_file.h"

namespace orlop {
namespace {

constexpr unsigned kCapIpcLock = 14;  // CAP_IPC_LOCK, include/uapi/linux/capability.h

// How one kind of limit is spelled in the two cgroup versions.
struct LimitFiles {
  std::vector<std::string> limits;  // the smallest counts
  std::string usage;
  std::vector<std::string> reclaimable;  // names in memory.stat; empty: nothing is reclaimable
};

LimitFiles memory_files(bool v2) {
  // Only pages of files: shared memory is in the cgroup's cache too, but nobody can drop it.
  // Beyond memory.high a cgroup is throttled to a crawl, which is no place for a cache either.
  if (v2) {
    return {{"memory.max", "memory.high"}, "memory.current", {"active_file", "inactive_file"}};
  }
  return {{"memory.limit_in_bytes"},
          "memory.usage_in_bytes",
          {"total_active_file", "total_inactive_file"}};
}

LimitFiles huge_files(bool v2, std::uint64_t huge_page_bytes) {
  const std::string size = huge_page_bytes >= 1024ull * 1024 * 1024
                               ? std::to_string(huge_page_bytes >> 30) + "GB"
                               : std::to_string(huge_page_bytes >> 20) + "MB";
  const std::string name = "hugetlb." + size;
  if (v2) return {{name + ".max"}, name + ".current", {}};
  return {{name + ".limit_in_bytes"}, name + ".usage_in_bytes", {}};
}

std::optional<CgroupLimit> read_limit(const std::string& folder, const LimitFiles& files) {
  std::optional<CgroupLimit> tightest;
  for (const std::string& name : files.limits) {
    auto text = read_text_file(folder + "/" + name);
    if (!text) continue;  // a root cgroup has no limit files
    const auto limit = cgroup_limit_value(*text);
    if (limit && (!tightest || *limit < tightest->limit)) {
      tightest = CgroupLimit{folder + "/" + name, *limit, 0, 0};
    }
  }
  if (!tightest) return std::nullopt;
  if (auto usage = read_text_file(folder + "/" + files.usage)) {
    tightest->usage = cgroup_limit_value(*usage).value_or(0);
  }
  if (files.reclaimable.empty()) return tightest;
  if (auto stat = read_text_file(folder + "/memory.stat")) {
    for (const std::string& name : files.reclaimable) {
      tightest->reclaimable += stat_value(*stat, name).value_or(0);
    }
  }
  return tightest;
}

// Every limit of one controller from the own cgroup up to the root, in every hierarchy that has it.
class CgroupWalk {
 public:
  explicit CgroupWalk(const MemorySources& sources) : root_(sources.root) {
    // No cgroups in the kernel, no limits.
    if (auto text = read_text_file(root_ + "/proc/" + sources.process + "/cgroup")) {
      memberships_ = parse_cgroup_memberships(*text);
    }
    if (auto text = read_text_file(root_ + "/proc/self/mountinfo")) {
      mounts_ = parse_cgroup_mounts(*text);
    }
  }

  template <class FilesOf>
  std::vector<CgroupLimit> limits(const std::string& controller, FilesOf files_of) const {
    std::vector<CgroupLimit> found;
    for (const CgroupMembership& membership : memberships_) {
      if (membership.path.starts_with("/..")) continue;  // beyond what our namespace shows
      for (const CgroupMount& mount : mounts_) {
        if (mount.v2 != membership.v2) continue;
        if (!mount.v2 && !(has(mount, controller) && has(membership, controller))) continue;
        for (const std::string& folder : cgroup_folders(mount, membership.path)) {
          if (auto limit = read_limit(root_ + folder, files_of(mount.v2))) found.push_back(*limit);
        }
      }
    }
    return found;
  }

 private:
  template <class Owner>
  static bool has(const Owner& owner, const std::string& controller) {
    return std::find(owner.controllers.begin(), owner.controllers.end(), controller) !=
           owner.controllers.end();
  }
  std::string root_;
  std::vector<CgroupMembership> memberships_;
  std::vector<CgroupMount> mounts_;
};

Result<std::optional<std::uint64_t>> measure_lockable(const std::string& root) {
  auto limits = read_text_file(root + "/proc/self/limits");
  if (!limits) return std::unexpected(limits.error());
  auto status = read_text_file(root + "/proc/self/status");
  if (!status) return std::unexpected(status.error());
  if (has_capability(*status, kCapIpcLock)) return std::nullopt;
  const auto soft = memlock_soft_limit(*limits);
  if (!soft) return std::nullopt;
  const std::uint64_t locked = labelled_value(*status, "VmLck").value_or(0);
  return *soft > locked ? *soft - locked : 0;
}

const CgroupLimit* tightest_of(const std::vector<CgroupLimit>& limits) {
  const auto least = std::min_element(
      limits.begin(), limits.end(),
      [](const CgroupLimit& a, const CgroupLimit& b) { return a.available() < b.available(); });
  return least == limits.end() ? nullptr : &*least;
}

std::string exact(std::uint64_t bytes) {
  return format_bytes(bytes) + " (" + format_count(bytes) + " bytes)";
}

std::string limit_text(const CgroupLimit& limit) {
  return limit.limit_file + " = " + format_bytes(limit.limit) + ", of which " +
         format_bytes(limit.usage - std::min(limit.usage, limit.reclaimable)) + " are in use";
}

// Which limit decides, in words.
std::string ordinary_limit_text(const MemoryAvailability& memory) {
  const CgroupLimit* cgroup = memory.tightest();
  if (cgroup != nullptr && cgroup->available() < memory.machine_available) {
    return limit_text(*cgroup);
  }
  return "MemAvailable of " + format_bytes(memory.machine_total) + " in /proc/meminfo";
}

// Sums that cannot wrap: a configuration may say anything.
std::uint64_t add(std::uint64_t a, std::uint64_t b) {
  return a > ~b ? ~std::uint64_t{0} : a + b;
}

// The largest capacity, in whole MiB, that would fit; 0 = cannot be said. Value and control area
// grow together, so both shrink by the same share.
std::uint64_t fitting_capacity(const BudgetRequest& request, const BudgetReport& report) {
  if (request.huge || request.value_bytes == 0) return 0;
  if (report.ordinary_available <= request.private_bytes) return 0;
  const auto room = static_cast<long double>(report.ordinary_available - request.private_bytes);
  const auto asked = static_cast<long double>(request.value_bytes) +
                     static_cast<long double>(request.control_bytes);
  const auto fits =
      static_cast<std::uint64_t>(static_cast<long double>(request.value_bytes) * (room / asked));
  return fits / kMiB * kMiB;
}

std::unexpected<Error> refuse_ordinary(const BudgetRequest& request, const BudgetReport& report,
                                       const MemoryAvailability& memory) {
  std::string message = "memory does not fit: " + exact(report.ordinary_needed) + " needed (";
  if (!request.huge) message += "value area " + format_bytes(request.value_bytes) + ", ";
  message += "control area " + format_bytes(request.control_bytes) + ", private " +
             format_bytes(request.private_bytes) + "), " + exact(report.ordinary_available) +
             " available by " + ordinary_limit_text(memory);
  if (const std::uint64_t capacity = fitting_capacity(request, report); capacity > 0) {
    message += "; lower memory.capacity to at most " + exact(capacity) +
               ", or raise the limit, or free memory";
  } else {
    message +=
        "; lower memory.capacity, by which the control area grows, or raise the limit, or free "
        "memory";
  }
  return fail(ErrorCode::kNoMemory, std::move(message));
}

std::unexpected<Error> refuse_huge(const BudgetReport& report, const MemoryAvailability& memory) {
  const CgroupLimit* cgroup = tightest_of(memory.huge_limits);
  const bool by_cgroup = cgroup != nullptr && cgroup->available() < memory.huge_available;
  const std::uint64_t page = std::max<std::uint64_t>(memory.huge_page_bytes, 1);
  const std::uint64_t missing = (report.huge_needed - report.huge_available + page - 1) / page;
  return fail(ErrorCode::kNoMemory,
              "huge pages do not fit: " + exact(report.huge_needed) +
                  " needed for the value area, " + exact(report.huge_available) + " available by " +
                  (by_cgroup ? limit_text(*cgroup)
                             : "HugePages_Free minus HugePages_Rsvd in /proc/meminfo") +
                  "; reserve " + format_count(missing) + " more huge pages of " +
                  format_bytes(page) +
                  " (sysctl vm.nr_hugepages), lower memory.capacity, or turn huge pages off");
}

}  // namespace

std::uint64_t CgroupLimit::available() const {
  const std::uint64_t fixed = usage - std::min(usage, reclaimable);
  return limit - std::min(limit, fixed);
}

const CgroupLimit* MemoryAvailability::tightest() const {
  return tightest_of(limits);
}

std::uint64_t MemoryAvailability::ordinary_available() const {
  const CgroupLimit* cgroup = tightest();
  return cgroup == nullptr ? machine_available : std::min(machine_available, cgroup->available());
}

Result<MemoryAvailability> measure_memory(const MemorySources& sources) {
  auto meminfo = read_text_file(sources.root + "/proc/meminfo");
  if (!meminfo) return std::unexpected(meminfo.error());
  const auto total = labelled_value(*meminfo, "MemTotal");
  const auto available = labelled_value(*meminfo, "MemAvailable");
  if (!total || !available) {
    return fail(ErrorCode::kSystem,
                sources.root +
                    "/proc/meminfo has no MemTotal or MemAvailable (Linux 3.14 or newer "
                    "is needed)");
  }
  MemoryAvailability memory;
  memory.machine_total = *total;
  memory.machine_available = *available;
  const std::uint64_t free_pages = labelled_value(*meminfo, "HugePages_Free").value_or(0);
  const std::uint64_t promised = labelled_value(*meminfo, "HugePages_Rsvd").value_or(0);
  memory.huge_page_bytes = labelled_value(*meminfo, "Hugepagesize").value_or(0);
  memory.huge_available = (free_pages - std::min(free_pages, promised)) * memory.huge_page_bytes;

  const CgroupWalk walk(sources);
  memory.limits = walk.limits("memory", memory_files);
  if (memory.huge_page_bytes != 0) {
    memory.huge_limits =
        walk.limits("hugetlb", [&](bool v2) { return huge_files(v2, memory.huge_page_bytes); });
  }
  auto lockable = measure_lockable(sources.root);
  if (!lockable) return std::unexpected(lockable.error());
  memory.lockable = *lockable;
  return memory;
}

Result<BudgetReport> check_budget(const BudgetRequest& request, const MemorySources& sources) {
  auto memory = measure_memory(sources);
  if (!memory) return std::unexpected(memory.error());
  return check_budget_against(request, *memory);
}

Result<BudgetReport> check_budget_against(const BudgetRequest& request,
                                          const MemoryAvailability& memory) {
  BudgetReport report;
  report.ordinary_needed = add(add(request.control_bytes, request.private_bytes),
                               request.huge ? 0 : request.value_bytes);
  report.ordinary_available = memory.ordinary_available();
  report.huge_needed = request.huge ? request.value_bytes : 0;
  report.huge_available = memory.huge_available;
  if (const CgroupLimit* cgroup = tightest_of(memory.huge_limits)) {
    report.huge_available = std::min(report.huge_available, cgroup->available());
  }
  report.locked_needed = request.locked_bytes;

  if (report.ordinary_needed > report.ordinary_available) {
    return refuse_ordinary(request, report, memory);
  }
  if (report.huge_needed > report.huge_available) return refuse_huge(report, memory);
  if (memory.lockable && request.locked_bytes > *memory.lockable) {
    return fail(ErrorCode::kNoMemory,
                "locked memory does not fit: " + exact(request.locked_bytes) + " needed, " +
                    exact(*memory.lockable) +
                    " left of the limit of locked memory (RLIMIT_MEMLOCK); raise it (ulimit -l, "
                    "LimitMEMLOCK=infinity) or give CAP_IPC_LOCK");
  }
  report.text = format_bytes(report.ordinary_needed) + " of " +
                format_bytes(report.ordinary_available) + " available by " +
                ordinary_limit_text(memory);
  if (request.huge) {
    report.text += "; " + format_bytes(report.huge_needed) + " of " +
                   format_bytes(report.huge_available) + " in free huge pages";
  }
  return report;
}

}  // namespace orlop
