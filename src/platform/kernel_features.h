// SPDX-License-Identifier: Apache-2.0
// What this kernel lets this process do, found out by doing it: versions lie (back-ports, seccomp
// filters of containers, sysctls). Every probe cleans up after itself.
// Thread: any; system calls only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace orlop {

struct FeatureProbe {
  bool works = false;
  std::string why;  // why not: call and errno in words; empty when it works
};

struct KernelFeatures {
  std::string release;        // uname -r
  FeatureProbe memory_files;  // memfd with the seals that MemoryFile sets
  FeatureProbe wipe_on_fork;  // MADV_WIPEONFORK (Linux 4.14): how a forked child knows itself
  FeatureProbe dont_fork;     // MADV_DONTFORK
  FeatureProbe pidfd;         // pidfd_open (Linux 5.3): the node's proof of a client's death
  FeatureProbe peer_pidfd;    // SO_PEERPIDFD (Linux 6.5): the same across pid namespaces
  FeatureProbe io_uring;      // io_uring_setup
  std::optional<int> io_uring_disabled;  // sysctl kernel.io_uring_disabled: 0 on, 1 root, 2 off
  // The chosen word of transparent_hugepage/shmem_enabled ("never", "advise", ...); empty: unknown.
  std::string shared_huge_pages;
};

// root: "" for the real files of /proc and /sys; a folder with a tree in tests. The system calls
// are always real.
KernelFeatures probe_kernel(const std::string& root = {});

// Pure: "always within_size [advise] never" -> "advise"; empty when no word is chosen.
std::string chosen_word(std::string_view text);

}  // namespace orlop
