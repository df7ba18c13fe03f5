// SPDX-License-Identifier: Apache-2.0
// On which memory nodes a mapping's pages lie. Affinity of threads is not touched.
//
// Set the policy before the first touch; pages already present stay where they are. For a memfd the
// policy belongs to the file: pages touched later by other processes follow it too.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "orlop/error.h"
#include "platform/mapping.h"

namespace orlop {

struct NumaPolicy {
  enum class Kind { kDefault, kInterleave, kNode };
  Kind kind = Kind::kDefault;
  int node = 0;  // kNode only
  bool operator==(const NumaPolicy&) const = default;
};

// "default", "interleave", "node:N". Errors: kInvalidArgument naming the text and what is allowed.
Result<NumaPolicy> parse_numa_policy(std::string_view text);

// Largest node number that is supported (the kernel's usual CONFIG_NODES_SHIFT is 10).
inline constexpr int kMaxNumaNode = 1023;

// Nodes with memory that this system has, ascending. {0} where the kernel knows no NUMA.
// root: "" for the real system; a folder that holds a sys/ tree in tests.
Result<std::vector<int>> numa_nodes(const std::string& root = {});

// Errors: kInvalidArgument (no such node; the existing ones are named), kSystem.
Result<void> bind(const Mapping& mapping, const NumaPolicy& policy);

// Resident bytes per node as mapped in this process, from /proc/self/numa_maps. Counts whole
// kernel areas: where the mapping was merged with a neighbour of the same file, both are counted.
Result<std::map<int, std::uint64_t>> bytes_by_node(const Mapping& mapping);

// Pure parts.
Result<std::vector<int>> parse_number_list(std::string_view text);  // "0-3,8\n"
// Sums the lines of a numa_maps text whose area begins in [start, end), or the one that contains
// start when none does.
std::map<int, std::uint64_t> parse_numa_maps(std::string_view text, std::uint64_t start,
                                             std::uint64_t end);

}  // namespace orlop
