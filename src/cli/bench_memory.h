// SPDX-License-Identifier: Apache-2.0
// What a node's processes take, apart from values: for the rows memory_*.
#pragma once

#include <cstdint>

#include "cli/private_node.h"
#include "orlop/error.h"
#include "platform/smaps.h"

namespace orlop::cli {

struct NodeMemory {
  std::uint64_t server_private = 0;  // smaps Private_*, memfds apart
  std::uint64_t keeper_private = 0;
  std::uint64_t control = 0;   // of the control area: all pages it has, or those the server maps
  std::uint64_t channels = 0;  // resident in all clients' channels

  // What the bar counts.
  std::uint64_t counted() const { return server_private + keeper_private + control; }
};

// Private memory of one process: memfds are counted by whose they are, not by who maps them. Pure.
std::uint64_t private_bytes(const std::vector<SmapsEntry>& entries);
// Resident pages of mappings of the control area. Pure.
std::uint64_t control_bytes(const std::vector<SmapsEntry>& entries);

// Now.
Result<NodeMemory> read_node_memory(const PrivateNode& node);
// Once nothing changes any more: the index has its size, the idle place is punched, the reserve is
// filled. Errors: kDeadline (still changing), as above.
Result<NodeMemory> settled_node_memory(const PrivateNode& node);

}  // namespace orlop::cli
