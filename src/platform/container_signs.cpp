// SPDX-License-Identifier: Apache-2.0
#include "platform/container_signs.h"

#include <unistd.h>

#include <array>

#include "platform/small_file.h"
#include "platform/text_fields.h"

namespace orlop {
namespace {

// Folders that container engines put their cgroups in.
constexpr std::array<std::string_view, 5> kEngineWords{"docker", "kubepods", "containerd", "libpod",
                                                       "lxc"};

std::optional<std::string> pid_namespace(const std::string& process) {
  std::array<char, 64> link{};
  const std::string path = "/proc/" + process + "/ns/pid";
  const ssize_t bytes = ::readlink(path.c_str(), link.data(), link.size());
  if (bytes <= 0) return std::nullopt;
  return std::string(link.data(), static_cast<std::size_t>(bytes));
}

}  // namespace

std::vector<std::string> container_signs(const std::string& root) {
  std::vector<std::string> signs;
  for (const char* path : {"/.dockerenv", "/run/.containerenv"}) {
    if (::access((root + path).c_str(), F_OK) == 0) signs.emplace_back(path);
  }
  const auto text = read_text_file(root + "/proc/1/cgroup");
  if (!text) return signs;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const std::string_view line = take_until(rest, '\n');
    for (const std::string_view word : kEngineWords) {
      if (line.find(word) == std::string_view::npos) continue;
      signs.push_back("/proc/1/cgroup: " + std::string(line.substr(line.rfind(':') + 1)));
      return signs;  // the other hierarchies say the same
    }
  }
  return signs;
}

std::optional<bool> shares_pid_namespace(pid_t pid) {
  const auto ours = pid_namespace("self"), theirs = pid_namespace(std::to_string(pid));
  if (!ours || !theirs) return std::nullopt;
  return *ours == *theirs;
}

}  // namespace orlop
