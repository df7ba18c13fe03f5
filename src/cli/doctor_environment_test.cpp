// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/units.h"

namespace orlop::cli {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kGiBytes = 1ull << 30;

// A machine on which everything is well; tests spoil one thing.
Environment good() {
  Environment e;
  const FeatureProbe works{true, ""};
  e.kernel = {.release = "6.18.44",
              .memory_files = works,
              .wipe_on_fork = works,
              .dont_fork = works,
              .pidfd = works,
              .peer_pidfd = works,
              .io_uring = works,
              .io_uring_disabled = 0,
              .shared_huge_pages = "advise"};
  MemoryAvailability memory;
  memory.machine_total = 24 * kGiBytes;
  memory.machine_available = 20 * kGiBytes;
  e.memory = memory;
  e.open_files_hard = 20'000;
  e.of_node = true;
  e.numa_nodes = {0};
  e.cuda.why = "libcuda.so.1: cannot open shared object file";
  e.copy_kind = "avx512";
  e.dev_shm_bytes = 64 << 20;
  e.uid = 1000;
  e.socket = {.path = "/run/o.sock",
              .exists = true,
              .allowed = true,
              .owner = 1000,
              .folder_complaint = ""};
  e.node = {.known = true,
            .value_bytes = 8 * kGiBytes,
            .value_resident_bytes = kGiBytes,
            .huge_bytes = 0,
            .bytes_by_node = {{"0", kGiBytes}}};
  return e;
}

Check check_of(const Environment& environment, const std::string& name) {
  for (Check& check : judge_environment(environment)) {
    if (check.name == name) return check;
  }
  ADD_FAILURE() << "no check " << name;
  return {};
}
void expect_check(const Environment& environment, const std::string& name, Verdict verdict,
                  const std::string& words) {
  const Check check = check_of(environment, name);
  EXPECT_STREQ(to_string(check.verdict), to_string(verdict)) << name << ": " << check.finding;
  EXPECT_THAT(check.finding, HasSubstr(words));
  EXPECT_EQ(check.remedy.empty(), verdict == Verdict::kOk) << check.remedy;
}

TEST(JudgeEnvironment, A_good_machine_is_ok_throughout) {
  const auto checks = judge_environment(good());
  EXPECT_EQ(checks.size(), 15u);
  for (const Check& check : checks) {
    EXPECT_EQ(check.verdict, Verdict::kOk) << check.name << ": " << check.finding;
    EXPECT_NE(check.finding, "") << check.name;
    EXPECT_EQ(check.remedy, "") << check.name;
  }
  expect_check(good(), "kernel", Verdict::kOk, "Linux 6.18.44");
  expect_check(good(), "gpu", Verdict::kOk, "no GPU driver: fine for CPU use");
  expect_check(good(), "dev_shm", Verdict::kOk, "64.0 MiB: it does not matter");
  expect_check(good(), "memory", Verdict::kOk, "the node will take 7.00 GiB more");
}

TEST(JudgeEnvironment, Missing_kernel_features_fail_with_their_reason) {
  Environment e = good();
  e.kernel.memory_files = {false, "memfd_create: EPERM"};
  expect_check(e, "memory_files", Verdict::kFailure, "memfd_create: EPERM");
  e = good();
  e.kernel.wipe_on_fork = {false, "MADV_WIPEONFORK: EINVAL"};
  expect_check(e, "fork_guard", Verdict::kFailure, "MADV_WIPEONFORK: EINVAL");
  e = good();
  e.kernel.pidfd = {false, "pidfd_open: ENOSYS"};
  expect_check(e, "pidfd", Verdict::kFailure, "deaths of clients cannot be proved");
  e = good();
  e.kernel.peer_pidfd = {false, "SO_PEERPIDFD: ENOPROTOOPT"};
  expect_check(e, "pidfd", Verdict::kWarning, "SO_PEERPIDFD: ENOPROTOOPT");
  e.shares_pid_namespace = false;
  expect_check(e, "container", Verdict::kFailure, "another pid namespace than the node's");
}

TEST(JudgeEnvironment, Huge_pages_that_cannot_be_had_are_a_warning) {
  Environment e = good();
  e.kernel.shared_huge_pages = "never";
  expect_check(e, "huge_pages", Verdict::kWarning, "for shared memory: never");
  e.memory->huge_available = kGiBytes;
  expect_check(e, "huge_pages", Verdict::kOk, "reserved and free: 1.00 GiB");
}

TEST(JudgeEnvironment, A_capacity_beyond_the_cgroup_fails_before_the_kernel_kills) {
  Environment e = good();
  e.memory->limits = {{.limit_file = "/sys/fs/cgroup/memory.max",
                       .limit = 4 * kGiBytes,
                       .usage = kGiBytes,
                       .reclaimable = 0}};
  expect_check(
      e, "memory", Verdict::kFailure,
      "the node's cgroup allows 4.00 GiB, 3.00 GiB of it free (/sys/fs/cgroup/memory.max)");
  e.node.value_bytes = 3 * kGiBytes;
  expect_check(e, "memory", Verdict::kOk, "the node will take 2.00 GiB more");
}

TEST(JudgeEnvironment, Our_cgroup_does_not_judge_a_node_in_another_one) {
  Environment e = good();
  e.of_node = false;
  e.memory->limits = {
      {.limit_file = "/sys/fs/cgroup/memory.max", .limit = kGiBytes, .usage = 0, .reclaimable = 0}};
  expect_check(e, "memory", Verdict::kOk, "the node's own cgroup cannot be seen from here");
  e.memory->machine_available = 6 * kGiBytes;
  expect_check(e, "memory", Verdict::kFailure, "the node will take 7.00 GiB more");
}

TEST(JudgeEnvironment, Locked_memory_matters_with_a_gpu_only) {
  Environment e = good();
  e.memory->lockable = 8 << 20;
  expect_check(e, "memlock", Verdict::kOk, "8.00 MiB may be locked: fine for CPU use");
  e.cuda = {.present = true,
            .works = true,
            .version = 13'000,
            .devices = {{"NVIDIA H200", 9, 0, 140 * kGiBytes, ""}},
            .why = ""};
  expect_check(e, "memlock", Verdict::kWarning, "8.00 MiB may be locked");
  expect_check(e, "gpu", Verdict::kOk,
               "driver for CUDA 13.0, 1 device; NVIDIA H200, compute 9.0, 140 GiB");
}

TEST(JudgeEnvironment, A_driver_that_fails_is_told_in_its_words) {
  Environment e = good();
  e.cuda = {.present = true,
            .works = false,
            .version = 12'080,
            .devices = {},
            .why = "cuInit failed: no CUDA-capable device is detected (100)"};
  expect_check(e, "gpu", Verdict::kWarning,
               "driver for CUDA 12.8; cuInit failed: no CUDA-capable device is detected (100)");
}

TEST(JudgeEnvironment, One_sided_memory_is_a_warning_on_several_nodes) {
  Environment e = good();
  e.numa_nodes = {0, 1};
  e.node.bytes_by_node = {{"0", 4 * kGiBytes}, {"1", 0}};
  expect_check(e, "numa", Verdict::kWarning, "2 memory nodes; the value area lies: 4.00 GiB on 0");
  e.node.bytes_by_node = {{"0", 2 * kGiBytes}, {"1", 2 * kGiBytes}};
  expect_check(e, "numa", Verdict::kOk, "2.00 GiB on 1");
}

TEST(JudgeEnvironment, Limits_and_settings) {
  Environment e = good();
  e.open_files_hard = 1'024;
  expect_check(e, "open_files", Verdict::kWarning, "1,024 open files allowed");
  e.kernel.io_uring = {false, "io_uring_setup: EPERM"};
  e.kernel.io_uring_disabled = 2;
  expect_check(e, "io_uring", Verdict::kOk,
               "not usable: io_uring_setup: EPERM (kernel.io_uring_disabled = 2)");
  e.copy_error = "ORLOP_COPY = 'fast' is not understood";
  expect_check(e, "copy", Verdict::kFailure, "ORLOP_COPY = 'fast'");
  e.memory = fail(ErrorCode::kSystem, "open(/proc/meminfo) failed");
  expect_check(e, "memory", Verdict::kWarning, "open(/proc/meminfo) failed");
  e.container_signs = {"/.dockerenv", "/proc/1/cgroup: /docker/1"};
  e.shares_pid_namespace = true;
  expect_check(e, "container", Verdict::kOk,
               "inside one: /.dockerenv, /proc/1/cgroup: /docker/1; same pid namespace");
}

TEST(JudgeEnvironment, Socket_and_user) {
  Environment e = good();
  expect_check(e, "socket", Verdict::kOk, "uid 1000 may connect to /run/o.sock (of uid 1000)");
  e.socket.owner = 0;
  e.socket.allowed = false;
  expect_check(e, "socket", Verdict::kFailure,
               "/run/o.sock belongs to uid 0 and uid 1000 may not connect");
  e.socket.exists = false;
  expect_check(e, "socket", Verdict::kWarning, "there is no /run/o.sock; this is uid 1000");
  e.socket.folder_complaint = "/tmp/orlop-1000 is not ours";
  expect_check(e, "socket", Verdict::kFailure, "/tmp/orlop-1000 is not ours");
}

TEST(MeasureEnvironment, Sees_this_machine) {
  const auto status = nlohmann::ordered_json::parse(
      R"({"memory": {"value_bytes": 4096, "value_resident_bytes": 4096, "huge_bytes": 0,
                     "bytes_by_node": {"0": 4096}}})");
  const Environment e = measure_environment("/nonexistent/o.sock", ::getpid(), status);
  ASSERT_TRUE(e.memory) << e.memory.error().message;
  EXPECT_GT(e.memory->machine_total, 0u);
  EXPECT_GT(e.open_files_hard, 0u);
  EXPECT_FALSE(e.numa_nodes.empty());
  EXPECT_FALSE(e.copy_kind.empty());
  EXPECT_EQ(e.shares_pid_namespace, true);
  EXPECT_FALSE(e.socket.exists);
  EXPECT_TRUE(e.of_node);
  EXPECT_TRUE(e.node.known);
  EXPECT_EQ(e.node.bytes_by_node.size(), 1u);
  EXPECT_EQ(check_of(e, "memory_files").verdict, Verdict::kOk);
}

TEST(MeasureEnvironment, A_process_that_is_not_there_is_no_node) {
  // Process ids end far below this one (kernel.pid_max is at most 2^22).
  const Environment e = measure_environment("/nonexistent/o.sock", 1 << 30, nullptr);
  EXPECT_FALSE(e.of_node);
  EXPECT_FALSE(e.node.known);
  EXPECT_TRUE(e.memory) << "of this process then";
  EXPECT_GT(e.open_files_hard, 0u);
}

TEST(MeasureEnvironment, A_node_that_does_not_tell_what_is_resident_is_not_judged) {
  const auto status = nlohmann::ordered_json::parse(
      R"({"memory": {"value_bytes": 1125899906842624, "huge_bytes": 0}})");
  const Environment e = measure_environment("/nonexistent/o.sock", ::getpid(), status);
  EXPECT_FALSE(e.node.known);
  EXPECT_EQ(check_of(e, "memory").verdict, Verdict::kOk);
}

}  // namespace
}  // namespace orlop::cli
