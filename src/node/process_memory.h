// SPDX-License-Identifier: Apache-2.0
// What the daemon's own processes take, apart from the segment.
#pragma once

#include <cstdint>

namespace orlop::node {

struct ProcessMemory {
  // Private (anonymous) resident bytes; 0 where /proc does not tell.
  std::uint64_t server_bytes = 0;
  std::uint64_t keeper_bytes = 0;
};
// server: this process. Thread: any; reads files.
ProcessMemory read_process_memory(std::uint32_t keeper_pid);

}  // namespace orlop::node
