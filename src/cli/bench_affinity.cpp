// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_affinity.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "platform/system_error.h"

namespace orlop::cli {
namespace {

Result<void> set_all(pid_t pid, const cpu_set_t& cpus) {
  const std::string folder = "/proc/" + (pid == 0 ? "self" : std::to_string(pid)) + "/task";
  std::error_code error;
  std::filesystem::directory_iterator tasks(folder, error);
  if (error) return fail(ErrorCode::kClosed, folder + ": " + error.message());
  for (const auto& task : tasks) {
    const auto tid = static_cast<pid_t>(std::atoi(task.path().filename().c_str()));
    // ESRCH: a thread that ended meanwhile.
    if (::sched_setaffinity(tid, sizeof cpus, &cpus) != 0 && errno != ESRCH) {
      return system_failure("sched_setaffinity(" + std::to_string(tid) + ")", errno);
    }
  }
  return {};
}

}  // namespace

Result<void> pin_process(pid_t pid, unsigned cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  return set_all(pid, cpus);
}

AffinityKept::AffinityKept() {
  CPU_ZERO(&before_);
  (void)::sched_getaffinity(0, sizeof before_, &before_);
}

AffinityKept::~AffinityKept() {
  (void)set_all(0, before_);
}

}  // namespace orlop::cli
