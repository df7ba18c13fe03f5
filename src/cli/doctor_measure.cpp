// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cli/doctor_environment.h"
#include "cli/status_fields.h"
#include "copy/copy.h"
#include "platform/container_signs.h"
#include "platform/numa.h"
#include "platform/runtime_dir.h"

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
  NodeMemory node{.known = known_number(memory, "value_bytes").has_value(),
                  .value_bytes = number(memory, "value_bytes"),
                  .value_resident_bytes = number(memory, "value_resident_bytes"),
                  .huge_bytes = number(memory, "huge_bytes"),
                  .bytes_by_node = {}};
  const Json& placement = at(memory, "bytes_by_node");
  if (!placement.is_object()) return node;
  for (const auto& [name, value] : placement.items()) {
    node.bytes_by_node.emplace_back(name, number(placement, name));
  }
  return node;
}

}  // namespace

Environment measure_environment(const std::string& socket, pid_t keeper, const Json& status) {
  Environment environment;
  environment.kernel = probe_kernel();
  environment.memory = measure_memory();
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) environment.open_files_hard = files.rlim_max;
  environment.numa_nodes = numa_nodes().value_or(std::vector<int>{});
  environment.cuda = ask_cuda_driver();
  environment.copy_kind = to_string(process_copy_engine().kind());
  if (const auto& engine = environment_copy_engine(); !engine) {
    environment.copy_error = engine.error().message;
  }
  environment.container_signs = container_signs();
  if (keeper != 0) environment.shares_pid_namespace = shares_pid_namespace(keeper);
  struct statvfs shm{};
  if (::statvfs("/dev/shm", &shm) == 0) environment.dev_shm_bytes = shm.f_blocks * shm.f_frsize;
  environment.uid = ::geteuid();
  environment.socket = measure_socket(socket);
  environment.node = node_memory(status);
  return environment;
}

}  // namespace orlop::cli
