// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>

#include "cli/doctor_environment.h"
#include "cli/status_fields.h"
#include "copy/copy.h"
#include "platform/container_signs.h"
#include "platform/memory_files_text.h"
#include "platform/numa.h"
#include "platform/runtime_dir.h"
#include "platform/small_file.h"

namespace orlop::cli {
namespace {

using namespace status_fields;

SocketAccess measure_socket(const std::string& path) {
  SocketAccess access{.path = path, .folder_complaint = {}};
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0) {
    access.exists = true;
    access.owner = info.st_uid;
    access.allowed = ::access(path.c_str(), R_OK | W_OK) == 0;
  }
  const SocketPlace usual = default_socket_place(RuntimeEnvironment::current());
  const auto folder =
      check_socket_folder(usual.socket_path == path ? usual : explicit_socket_place(path));
  if (!folder && folder.error().code != ErrorCode::kNoNode) {
    access.folder_complaint = folder.error().message;
  }
  return access;
}

NodeMemory node_memory(const Json& status) {
  const Json& memory = at(status, "memory");
  NodeMemory node;
  const auto whole = known_number(memory, "value_bytes");
  const auto resident = known_number(memory, "value_resident_bytes");
  const auto huge = known_number(memory, "huge_bytes");
  if (!whole || !resident || !huge) return node;
  node.known = true;
  node.value_bytes = *whole;
  node.value_resident_bytes = *resident;
  node.huge_bytes = *huge;
  const Json& placement = at(memory, "bytes_by_node");
  if (!placement.is_object()) return node;
  for (const auto& [name, value] : placement.items()) {
    node.bytes_by_node.emplace_back(masked(name), number(placement, name));
  }
  return node;
}

// Limits of the node if its process is to be seen, else of this one.
void measure_limits(pid_t keeper, Environment& out) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) out.open_files_hard = files.rlim_max;
  const std::string process = std::to_string(keeper);
  // Both files may be read by any user. In another pid namespace the number is somebody else's, and
  // a cgroup beyond our cgroup namespace has a path that begins with "..".
  const bool same_numbers = keeper != 0 && out.shares_pid_namespace.value_or(true);
  const auto cgroup = read_text_file("/proc/" + process + "/cgroup");
  const auto limits = read_text_file("/proc/" + process + "/limits");
  const auto hard = limits ? open_files_hard_limit(*limits) : std::nullopt;
  out.of_node = same_numbers && hard && cgroup && !cgroup->contains(":/..");
  if (out.of_node) out.open_files_hard = *hard;
  out.memory = measure_memory({.root = "", .process = out.of_node ? process : "self"});
}

GpuSurroundings surroundings(const Environment& environment) {
  GpuSurroundings around;
  around.node_here = numa_node_here();
  if (environment.memory) around.lockable_bytes = environment.memory->lockable;
  if (!environment.node.known) return around;
  around.value_bytes = environment.node.value_bytes;
  std::uint64_t most = 0;
  for (const auto& [node, bytes] : environment.node.bytes_by_node) {
    if (bytes <= most) continue;
    most = bytes;
    around.node_of_values = std::atoi(node.c_str());
  }
  return around;
}

}  // namespace

Environment measure_environment(const std::string& socket, pid_t keeper, const Json& status) {
  Environment environment;
  environment.kernel = probe_kernel();
  if (keeper != 0) environment.shares_pid_namespace = shares_pid_namespace(keeper);
  measure_limits(keeper, environment);
  environment.numa_nodes = numa_nodes().value_or(std::vector<int>{});
  environment.cuda = ask_cuda_driver();
  environment.copy_kind = to_string(process_copy_engine().kind());
  if (const auto& engine = environment_copy_engine(); !engine) {
    environment.copy_error = engine.error().message;
  }
  environment.container_signs = container_signs();
  struct statvfs shm{};
  if (::statvfs("/dev/shm", &shm) == 0) environment.dev_shm_bytes = shm.f_blocks * shm.f_frsize;
  environment.uid = ::geteuid();
  environment.socket = measure_socket(socket);
  environment.node = node_memory(status);
  environment.around_gpus = surroundings(environment);
  environment.gpus = measure_gpus(environment.cuda, environment.around_gpus);
  return environment;
}

}  // namespace orlop::cli
