// SPDX-License-Identifier: Apache-2.0
// Whether this process runs in a container, and whether another one lives in the same pid
// namespace. Signs, not proofs: there is no system call that answers this.
// Thread: any; reads files only.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace orlop {

// What was seen: "/.dockerenv", "/run/.containerenv", "/proc/1/cgroup: /kubepods/...". Empty: no
// sign. root: "" for the real system, a folder with a tree in tests.
std::vector<std::string> container_signs(const std::string& root = {});

// Whether that process sees the same pids as we do; none when it cannot be known (it does not exist
// here, or is another user's).
std::optional<bool> shares_pid_namespace(pid_t pid);

}  // namespace orlop
