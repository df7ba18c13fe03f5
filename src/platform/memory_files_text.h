// SPDX-License-Identifier: Apache-2.0
// Parsers of the kernel's text files about memory limits. Pure: text in, values out.
// Unknown lines are skipped; a missing or malformed value is none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orlop {

// Value of a "Name:   123 kB" line (meminfo, status, smaps), in bytes when "kB" follows, else as
// is.
std::optional<std::uint64_t> labelled_value(std::string_view text, std::string_view label);

// Value of a "name 123" line (memory.stat).
std::optional<std::uint64_t> stat_value(std::string_view text, std::string_view name);

// A cgroup limit file: "max" and v1's "no limit" (2^63 rounded down to pages) are none.
std::optional<std::uint64_t> cgroup_limit_value(std::string_view text);

// Soft limit of "Max locked memory" in /proc/self/limits; none = unlimited or not found.
std::optional<std::uint64_t> memlock_soft_limit(std::string_view limits_text);

// Hard limit of "Max open files" there, unlimited is the largest number; none = not found.
std::optional<std::uint64_t> open_files_hard_limit(std::string_view limits_text);

// True when CapEff of /proc/self/status contains the capability's bit.
bool has_capability(std::string_view status_text, unsigned capability);

// One line of /proc/self/cgroup.
struct CgroupMembership {
  bool v2 = false;
  std::vector<std::string> controllers;  // v1 only
  std::string path;                      // as the process sees it
};
std::vector<CgroupMembership> parse_cgroup_memberships(std::string_view text);

// One cgroup file system of /proc/self/mountinfo.
struct CgroupMount {
  bool v2 = false;
  std::vector<std::string> controllers;  // v1 only, from the super options
  std::string mount_root;                // which cgroup is at the mount point
  std::string mount_point;               // octal escapes resolved
};
std::vector<CgroupMount> parse_cgroup_mounts(std::string_view mountinfo_text);

// Folders from the process's own cgroup up to the mount point, own first. A path outside the
// mount's root (cgroup namespaces) gives the mount point alone.
std::vector<std::string> cgroup_folders(const CgroupMount& mount, std::string_view path);

}  // namespace orlop
