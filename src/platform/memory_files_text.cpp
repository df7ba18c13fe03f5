// SPDX-License-Identifier: Apache-2.0
#include "platform/memory_files_text.h"

#include "platform/text_fields.h"

namespace orlop {
namespace {

// v1 writes LONG_MAX rounded down to a page for "no limit"; nobody owns 2^60 bytes.
constexpr std::uint64_t kNoLimit = 1ull << 60;
constexpr std::size_t kMaxFolders = 256;  // depth of a cgroup tree that we follow

// The rest of the first line that begins with prefix.
std::optional<std::string_view> line_after(std::string_view text, std::string_view prefix) {
  while (!text.empty()) {
    std::string_view line = take_until(text, '\n');
    if (line.starts_with(prefix)) return line.substr(prefix.size());
  }
  return std::nullopt;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::string_view part = take_until(text, separator);
    if (!part.empty()) parts.emplace_back(part);
  }
  return parts;
}

// mountinfo writes space, tab, newline and backslash as \040 and so on.
std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto code = text[i] == '\\' && i + 3 < text.size() ? to_number(text.substr(i + 1, 3), 8)
                                                             : std::optional<std::uint64_t>{};
    if (code && *code < 256) {
      plain += static_cast<char>(*code);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

}  // namespace

std::optional<std::uint64_t> labelled_value(std::string_view text, std::string_view label) {
  auto rest = line_after(text, std::string(label) + ":");
  if (!rest) return std::nullopt;
  const auto value = to_number(take_word(*rest));
  const std::string_view unit = take_word(*rest);
  if (!value || *value >= kNoLimit) return std::nullopt;
  return unit == "kB" ? *value * 1024 : *value;
}

std::optional<std::uint64_t> stat_value(std::string_view text, std::string_view name) {
  auto rest = line_after(text, std::string(name) + " ");
  if (!rest) return std::nullopt;
  return to_number(take_word(*rest));
}

std::optional<std::uint64_t> cgroup_limit_value(std::string_view text) {
  const auto value = to_number(take_word(text));
  if (!value || *value >= kNoLimit) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> memlock_soft_limit(std::string_view limits_text) {
  auto rest = line_after(limits_text, "Max locked memory");
  if (!rest) return std::nullopt;
  return to_number(take_word(*rest));
}

std::optional<std::uint64_t> open_files_hard_limit(std::string_view limits_text) {
  auto rest = line_after(limits_text, "Max open files");
  if (!rest) return std::nullopt;
  (void)take_word(*rest);  // the soft one
  const std::string_view hard = take_word(*rest);
  return hard == "unlimited" ? ~std::uint64_t{0} : to_number(hard);
}

bool has_capability(std::string_view status_text, unsigned capability) {
  auto rest = line_after(status_text, "CapEff:");
  if (!rest || capability >= 64) return false;
  const auto bits = to_number(take_word(*rest), 16);
  return bits && ((*bits >> capability) & 1) != 0;
}

std::vector<CgroupMembership> parse_cgroup_memberships(std::string_view text) {
  std::vector<CgroupMembership> memberships;
  while (!text.empty()) {
    std::string_view line = take_until(text, '\n');
    const std::string_view hierarchy = take_until(line, ':');
    const std::string_view controllers = take_until(line, ':');
    if (!to_number(hierarchy) || !line.starts_with('/')) continue;
    CgroupMembership membership;
    membership.v2 = hierarchy == "0" && controllers.empty();
    membership.controllers = split(controllers, ',');
    membership.path = line;
    memberships.push_back(std::move(membership));
  }
  return memberships;
}

std::vector<CgroupMount> parse_cgroup_mounts(std::string_view mountinfo_text) {
  // 35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
  std::vector<CgroupMount> mounts;
  while (!mountinfo_text.empty()) {
    std::string_view line = take_until(mountinfo_text, '\n');
    for (int skipped = 0; skipped < 3; ++skipped) take_word(line);  // ids, device
    const std::string_view mount_root = take_word(line);
    const std::string_view mount_point = take_word(line);
    const std::size_t dash = line.find(" - ");  // after optional fields of any number
    if (dash == std::string_view::npos) continue;
    line.remove_prefix(dash + 3);
    const std::string_view type = take_word(line);
    if (type != "cgroup" && type != "cgroup2") continue;
    take_word(line);  // source
    CgroupMount mount;
    mount.v2 = type == "cgroup2";
    if (!mount.v2) mount.controllers = split(take_word(line), ',');
    mount.mount_root = unescape(mount_root);
    mount.mount_point = unescape(mount_point);
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

std::vector<std::string> cgroup_folders(const CgroupMount& mount, std::string_view path) {
  // Of what lies below the mount's root; a path that is elsewhere cannot be seen from here.
  const std::string_view root = mount.mount_root == "/" ? "" : std::string_view(mount.mount_root);
  const bool below = path.starts_with(root) &&
                     (path.size() == root.size() || path[root.size()] == '/') &&
                     path.find("/..") == std::string_view::npos;
  std::string relative(below ? path.substr(root.size()) : std::string_view{});
  if (relative == "/") relative.clear();
  std::vector<std::string> folders;
  while (!relative.empty() && folders.size() < kMaxFolders) {
    folders.push_back(mount.mount_point + relative);
    relative.resize(relative.find_last_of('/'));
  }
  folders.push_back(mount.mount_point);
  return folders;
}

}  // namespace orlop
