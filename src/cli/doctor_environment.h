// SPDX-License-Identifier: Apache-2.0
// The machine as Orlop needs it: measured (measure_environment, system calls and files) and judged
// (judge_environment, pure). Check names: kernel, memory_files, fork_guard, pidfd, huge_pages,
// memlock, open_files, memory, numa, io_uring, gpu (and doctor_gpu.h's), copy, container, dev_shm,
// socket.
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/doctor_check.h"
#include "cli/doctor_gpu.h"
#include "orlop/error.h"
#include "platform/cuda_driver.h"
#include "platform/kernel_features.h"
#include "platform/memory_budget.h"

namespace orlop::cli {

struct SocketAccess {
  std::string path;
  bool exists = false;
  bool allowed = false;          // this user may connect (access(2), read and write)
  uid_t owner = 0;               // of the socket
  std::string folder_complaint;  // why a client would not trust the folder; empty: it would
};

// What the running node says that belongs to the machine; zeros without a node or if it does not
// say all of it.
struct NodeMemory {
  bool known = false;
  std::uint64_t value_bytes = 0, value_resident_bytes = 0, huge_bytes = 0;
  std::vector<std::pair<std::string, std::uint64_t>> bytes_by_node;
};

struct Environment {
  KernelFeatures kernel;
  Result<MemoryAvailability> memory = fail(ErrorCode::kSystem, "not measured");
  std::uint64_t open_files_hard = 0;
  // The cgroups of `memory` and open_files_hard are the node's; else those of this process, as
  // there is no node or it cannot be seen from here.
  bool of_node = false;
  std::vector<int> numa_nodes;
  CudaDriver cuda;
  std::vector<GpuFacts> gpus;  // one a device of a driver that works
  GpuSurroundings around_gpus;
  std::string copy_kind;
  std::string copy_error;  // what is wrong with ORLOP_COPY and its kin; empty: nothing
  std::vector<std::string> container_signs;
  std::optional<bool> shares_pid_namespace;  // with the node; none: unknown or no node
  std::optional<std::uint64_t> dev_shm_bytes;
  uid_t uid = 0;
  SocketAccess socket;
  NodeMemory node;
};

// keeper: 0 without a node. status: null without one. Loads the GPU driver, if there is one, and
// copies to and from its devices.
Environment measure_environment(const std::string& socket, pid_t keeper,
                                const nlohmann::ordered_json& status);
std::vector<Check> judge_environment(const Environment& environment);

}  // namespace orlop::cli
