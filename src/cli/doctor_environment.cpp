// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_environment.h"

#include <algorithm>
#include <iterator>

#include "base/units.h"
#include "cli/report.h"

namespace orlop::cli {
namespace {

using Json = nlohmann::ordered_json;

// Six descriptors a client (connection, channel, doorbells, pidfd, fork pipe), 256 clients, and the
// node's own.
constexpr std::uint64_t kEnoughOpenFiles = 2'048;
// More than this share of the value area on one of several memory nodes: their bandwidth is not
// used.
constexpr double kLopsidedShare = 0.9;

void judge_kernel(const Environment& e, std::vector<Check>& out) {
  out.push_back({.name = "kernel", .finding = "Linux " + e.kernel.release});
  const auto needed = [&out](const char* name, const FeatureProbe& probe, const char* what,
                             const char* remedy) {
    out.push_back({.name = name,
                   .verdict = probe.works ? Verdict::kOk : Verdict::kFailure,
                   .finding = std::string(what) + (probe.works ? " work" : ": " + probe.why),
                   .remedy = probe.works ? "" : remedy});
  };
  needed("memory_files", e.kernel.memory_files, "sealed memory files (memfd)",
         "Orlop cannot run here: allow memfd_create (Linux 3.17, the container's seccomp profile)");
  needed("fork_guard", e.kernel.wipe_on_fork.works ? e.kernel.dont_fork : e.kernel.wipe_on_fork,
         "MADV_WIPEONFORK and MADV_DONTFORK",
         "clients could not tell a forked child from themselves: Linux 4.14 or newer is needed");
  Check pidfd{.name = "pidfd",
              .finding = "pidfd_open and SO_PEERPIDFD work: deaths of clients can be proved"};
  if (!e.kernel.pidfd.works) {
    pidfd.verdict = Verdict::kFailure;
    pidfd.finding = e.kernel.pidfd.why + ": deaths of clients cannot be proved";
    pidfd.remedy = "the node refuses clients then: use Linux 5.3 or allow pidfd_open (seccomp)";
  } else if (!e.kernel.peer_pidfd.works) {
    pidfd.verdict = Verdict::kWarning;
    pidfd.finding = "pidfd_open works; " + e.kernel.peer_pidfd.why;
    pidfd.remedy =
        "clients must share the node's pid namespace (docker: --pid=host), or use Linux 6.5";
  }
  out.push_back(std::move(pidfd));
}

Check judge_huge_pages(const Environment& e) {
  const std::string shared =
      e.kernel.shared_huge_pages.empty() ? "unknown" : e.kernel.shared_huge_pages;
  const std::uint64_t reserved = e.memory ? e.memory->huge_available : 0;
  Check check{
      .name = "huge_pages",
      .finding = "for shared memory: " + shared + "; reserved and free: " + format_bytes(reserved),
      .figures = {{"shmem_enabled", shared}, {"reserved_free_bytes", reserved}}};
  if (e.node.known) {
    check.finding += "; the node got " + format_bytes(e.node.huge_bytes) + " of " +
                     format_bytes(e.node.value_bytes) + " in huge pages";
    check.figures["node_huge_bytes"] = e.node.huge_bytes;
  }
  const bool possible =
      (shared != "never" && shared != "deny" && shared != "unknown") || reserved > 0;
  const bool got = e.node.known && e.node.huge_bytes > 0;
  if (!possible && !got) {
    check.verdict = Verdict::kWarning;
    check.remedy =
        "large values copy faster with them: echo advise > "
        "/sys/kernel/mm/transparent_hugepage/shmem_enabled, or reserve some (vm.nr_hugepages), "
        "then start the node with --huge try";
  }
  return check;
}

Check judge_memlock(const Environment& e) {
  Check check{.name = "memlock"};
  if (!e.memory || !e.memory->lockable) {
    check.finding = "no limit on locked memory for this process";
    return check;
  }
  const std::uint64_t lockable = *e.memory->lockable;
  check.figures = {{"lockable_bytes", lockable}};
  check.finding = format_bytes(lockable) + " may be locked";
  if (!e.cuda.works || (e.node.known && lockable >= e.node.value_bytes)) {
    check.finding += ": fine for CPU use, which locks nothing";
    return check;
  }
  check.verdict = Verdict::kWarning;
  check.finding += "; registering the value area with a device may need its whole size";
  check.remedy =
      "raise it for engine and node: ulimit -l, LimitMEMLOCK=infinity, --ulimit memlock=-1";
  return check;
}

Check judge_open_files(const Environment& e) {
  Check check{.name = "open_files",
              .finding = format_count(e.open_files_hard) + " open files allowed " +
                         (e.of_node ? "for the node" : "here") + " (hard limit)",
              .figures = {{"hard", e.open_files_hard}}};
  if (e.open_files_hard < kEnoughOpenFiles) {
    check.verdict = Verdict::kWarning;
    check.remedy = "256 clients need " + format_count(kEnoughOpenFiles) +
                   ": raise RLIMIT_NOFILE (LimitNOFILE=, --ulimit nofile)";
  }
  return check;
}

Check judge_memory(const Environment& e) {
  Check check{.name = "memory"};
  if (!e.memory) {
    check.verdict = Verdict::kWarning;
    check.finding = e.memory.error().message;
    check.remedy = "/proc must be mounted";
    return check;
  }
  // Our cgroup says nothing about a node that is in another one.
  const std::uint64_t available =
      e.node.known && !e.of_node ? e.memory->machine_available : e.memory->ordinary_available();
  check.finding = format_bytes(e.memory->machine_available) + " of " +
                  format_bytes(e.memory->machine_total) + " available";
  check.figures = {{"machine_total_bytes", e.memory->machine_total},
                   {"available_bytes", available}};
  if (const CgroupLimit* tightest = e.memory->tightest()) {
    check.finding += std::string("; ") + (e.of_node ? "the node's cgroup" : "the cgroup here") +
                     " allows " + format_bytes(tightest->limit) + ", " +
                     format_bytes(tightest->available()) + " of it free (" + tightest->limit_file +
                     ")";
    check.figures["cgroup_limit_bytes"] = tightest->limit;
  } else {
    check.finding += "; no cgroup limits it";
  }
  if (!e.node.known) return check;
  if (!e.of_node) check.finding += "; the node's own cgroup cannot be seen from here";
  // Pages of the value area that were never touched are still to be taken from what is available.
  const std::uint64_t due =
      e.node.value_bytes - std::min(e.node.value_bytes, e.node.value_resident_bytes);
  check.figures["capacity_bytes"] = e.node.value_bytes;
  check.figures["not_yet_touched_bytes"] = due;
  check.finding += "; the node will take " + format_bytes(due) + " more";
  if (due > available) {
    check.verdict = Verdict::kFailure;
    check.remedy =
        "that is more than there is, and the kernel will kill somebody when it is "
        "touched: restart the node with a smaller --capacity, or raise the limit";
  }
  return check;
}

Check judge_numa(const Environment& e) {
  Check check{.name = "numa",
              .finding = format_count(e.numa_nodes.size()) +
                         (e.numa_nodes.size() == 1 ? " memory node" : " memory nodes")};
  std::uint64_t all = 0, most = 0;
  std::string placement;
  for (const auto& [node, bytes] : e.node.bytes_by_node) {
    all += bytes;
    most = std::max(most, bytes);
    placement += (placement.empty() ? "" : ", ") + format_bytes(bytes) + " on " + node;
    check.figures["node_" + node + "_bytes"] = bytes;
  }
  if (all > 0) check.finding += "; the value area lies: " + placement;
  if (e.numa_nodes.size() > 1 && all > 0 && ratio(most, all) > kLopsidedShare) {
    check.verdict = Verdict::kWarning;
    check.remedy =
        "one node's bandwidth serves everybody: --numa interleave, or a node for each "
        "memory node (--numa node:N) with its engines bound there";
  }
  return check;
}

Check judge_io_uring(const Environment& e) {
  const std::string setting =
      e.kernel.io_uring_disabled
          ? " (kernel.io_uring_disabled = " + std::to_string(*e.kernel.io_uring_disabled) + ")"
          : "";
  if (e.kernel.io_uring.works) return {.name = "io_uring", .finding = "works" + setting};
  return {.name = "io_uring",
          .finding = "not usable: " + e.kernel.io_uring.why + setting +
                     "; only disks would use it, threads do instead"};
}

Check judge_gpu(const Environment& e) {
  if (!e.cuda.present) {
    return {.name = "gpu", .finding = "no GPU driver: fine for CPU use (" + e.cuda.why + ")"};
  }
  const std::string version = "CUDA " + std::to_string(e.cuda.version / 1000) + "." +
                              std::to_string(e.cuda.version % 1000 / 10);
  if (!e.cuda.works) {
    return {.name = "gpu",
            .verdict = Verdict::kWarning,
            .finding = "driver for " + version + "; " + e.cuda.why,
            .remedy =
                "GPU copies cannot work in this environment: see nvidia-smi; a container "
                "needs --gpus and the driver's device files"};
  }
  Check check{.name = "gpu",
              .finding = "driver for " + version + ", " + format_count(e.cuda.devices.size()) +
                         (e.cuda.devices.size() == 1 ? " device" : " devices")};
  check.figures["devices"] = Json::array();
  for (const CudaDevice& device : e.cuda.devices) {
    const std::string compute =
        std::to_string(device.compute_major) + "." + std::to_string(device.compute_minor);
    check.finding +=
        "; " + device.name + ", compute " + compute + ", " + format_bytes(device.memory_bytes);
    check.figures["devices"].push_back({{"name", device.name},
                                        {"compute_capability", compute},
                                        {"memory_bytes", device.memory_bytes}});
  }
  return check;
}

Check judge_copy(const Environment& e) {
  Check check{.name = "copy", .finding = "CPU copies use " + e.copy_kind};
  if (!e.copy_error.empty()) {
    check.verdict = Verdict::kFailure;
    check.finding = e.copy_error;
    check.remedy = "clients refuse to attach with this: unset or correct ORLOP_COPY";
  }
  return check;
}

Check judge_container(const Environment& e) {
  Check check{.name = "container"};
  for (const std::string& sign : e.container_signs) {
    check.finding += (check.finding.empty() ? "inside one: " : ", ") + sign;
  }
  if (check.finding.empty()) check.finding = "no sign of one";
  if (!e.shares_pid_namespace) return check;
  check.finding += *e.shares_pid_namespace ? "; same pid namespace as the node"
                                           : "; another pid namespace than the node's";
  check.figures["shares_pid_namespace"] = *e.shares_pid_namespace;
  if (!*e.shares_pid_namespace && !e.kernel.peer_pidfd.works) {
    check.verdict = Verdict::kFailure;
    check.remedy =
        "the node cannot prove deaths of processes in here and refuses them: share the "
        "pid namespace (--pid=host, shareProcessNamespace) or use Linux 6.5";
  }
  return check;
}

Check judge_dev_shm(const Environment& e) {
  return {.name = "dev_shm",
          .finding = "/dev/shm is " +
                     (e.dev_shm_bytes ? format_bytes(*e.dev_shm_bytes) : std::string("not there")) +
                     ": it does not matter, Orlop does not use it"};
}

Check judge_socket(const Environment& e) {
  const SocketAccess& socket = e.socket;
  Check check{.name = "socket", .figures = {{"path", socket.path}, {"uid", e.uid}}};
  const std::string us = "uid " + std::to_string(e.uid);
  if (!socket.folder_complaint.empty()) {
    check.verdict = Verdict::kFailure;
    check.finding = socket.folder_complaint;
    check.remedy = "clients do not connect there: name another socket in ORLOP_SOCKET";
  } else if (!socket.exists) {
    check.verdict = Verdict::kWarning;
    check.finding = "there is no " + socket.path + "; this is " + us;
    check.remedy =
        "start a node, or name its socket with --socket or ORLOP_SOCKET; in a container, "
        "mount the socket's folder";
  } else if (!socket.allowed) {
    check.verdict = Verdict::kFailure;
    check.finding = socket.path + " belongs to uid " + std::to_string(socket.owner) + " and " + us +
                    " may not connect";
    check.remedy = "run as that user, or add " + std::to_string(e.uid) +
                   " to node.allow_uids and give its group access to the socket";
  } else {
    check.finding =
        us + " may connect to " + socket.path + " (of uid " + std::to_string(socket.owner) + ")";
  }
  return check;
}

}  // namespace

std::vector<Check> judge_environment(const Environment& environment) {
  std::vector<Check> out;
  judge_kernel(environment, out);
  for (const auto judge :
       {judge_huge_pages, judge_memlock, judge_open_files, judge_memory, judge_numa, judge_io_uring,
        judge_gpu, judge_copy, judge_container, judge_dev_shm, judge_socket}) {
    out.push_back(judge(environment));
    if (judge != judge_gpu) continue;
    std::ranges::move(judge_gpus(environment.gpus, environment.around_gpus),
                      std::back_inserter(out));
  }
  return out;
}

}  // namespace orlop::cli
