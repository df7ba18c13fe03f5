// SPDX-License-Identifier: Apache-2.0
#include "platform/memory_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/bytes.h"
#include "platform/test_process.h"

namespace orlop {
namespace {

using testing::HasSubstr;

// A machine of text files: 16 GiB, of which 10 GiB are available, no cgroups.
class FakeMachine {
 public:
  FakeMachine() {
    write("/proc/meminfo",
          "MemTotal:       16777216 kB\nMemAvailable:   10485760 kB\nHugePages_Total: 20\n"
          "HugePages_Free: 10\nHugePages_Rsvd: 4\nHugepagesize: 2048 kB\n");
    locked("8388608", "0000000000000000");
  }
  void write(const std::string& path, const std::string& text) {
    const std::string full = root_.path() + path;
    std::filesystem::create_directories(std::filesystem::path(full).parent_path());
    std::ofstream(full) << text;
  }
  void locked(const std::string& soft, const std::string& capabilities) {
    write("/proc/self/limits", "Max locked memory         " + soft + "   8388608   bytes\n");
    write("/proc/self/status", "VmLck:      1024 kB\nCapEff:\t" + capabilities + "\n");
  }
  void v2(const std::string& path) {
    write("/proc/self/cgroup", "0::" + path + "\n");
    write("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  }
  void v2_limit(const std::string& folder, const std::string& max, const std::string& current,
                const std::string& stat) {
    write("/sys/fs/cgroup" + folder + "/memory.max", max + "\n");
    write("/sys/fs/cgroup" + folder + "/memory.current", current + "\n");
    write("/sys/fs/cgroup" + folder + "/memory.stat", stat);
  }
  MemorySources sources() const { return {root_.path()}; }
  MemoryAvailability measure() const {
    auto memory = measure_memory(sources());
    EXPECT_TRUE(memory.has_value()) << memory.error().message;
    return memory ? *memory : MemoryAvailability{};
  }

 private:
  TestFolder root_;
};

TEST(MemoryBudget, Machine_without_cgroups_has_what_meminfo_says) {
  FakeMachine machine;
  const MemoryAvailability memory = machine.measure();
  EXPECT_EQ(memory.ordinary_available(), 10 * kGiB);
  EXPECT_EQ(memory.huge_available, 6 * 2 * kMiB);
  EXPECT_EQ(memory.tightest(), nullptr);
  EXPECT_EQ(memory.lockable, 7 * kMiB);
}

TEST(MemoryBudget, V2_parent_that_is_tighter_decides) {
  FakeMachine machine;
  machine.v2("/pod/box");
  machine.v2_limit("/pod/box", "max", "0", "");
  machine.v2_limit("/pod", std::to_string(4 * kGiB), std::to_string(2 * kGiB),
                   "active_file " + std::to_string(512 * kMiB) + "\ninactive_file " +
                       std::to_string(256 * kMiB) + "\nshmem 77777\n");
  const MemoryAvailability memory = machine.measure();
  ASSERT_EQ(memory.limits.size(), 1u);
  EXPECT_EQ(memory.ordinary_available(), 4 * kGiB - (2 * kGiB - 768 * kMiB));
  EXPECT_THAT(memory.tightest()->limit_file, testing::EndsWith("/sys/fs/cgroup/pod/memory.max"));
}

TEST(MemoryBudget, Limits_are_those_of_the_process_that_is_named) {
  FakeMachine machine;
  machine.v2("/ours");
  machine.write("/proc/42/cgroup", "0::/theirs\n");
  machine.write("/proc/43/cgroup", "0::/../outside\n");
  machine.v2_limit("/ours", std::to_string(kGiB), "0", "");
  machine.v2_limit("/theirs", std::to_string(3 * kGiB), "0", "");
  machine.v2_limit("/../outside", std::to_string(kMiB), "0", "");
  const std::string root = machine.sources().root;
  EXPECT_EQ(measure_memory({root, "42"}).value().ordinary_available(), 3 * kGiB);
  EXPECT_EQ(measure_memory({root, "43"}).value().ordinary_available(), 10 * kGiB);
  EXPECT_EQ(machine.measure().ordinary_available(), kGiB);
}

TEST(MemoryBudget, V2_high_below_max_decides) {
  FakeMachine machine;
  machine.v2("/box");
  machine.v2_limit("/box", std::to_string(4 * kGiB), "0", "");
  machine.write("/sys/fs/cgroup/box/memory.high", std::to_string(kGiB) + "\n");
  EXPECT_EQ(machine.measure().ordinary_available(), kGiB);
}

TEST(MemoryBudget, V1_walks_to_the_root_and_counts_hierarchical_page_cache) {
  FakeMachine machine;
  machine.write("/proc/self/cgroup", "4:memory:/a/b\n3:cpu:/\n0::/\n");
  machine.write("/proc/self/mountinfo",
                "35 31 0:32 / /sys/fs/cgroup/memory rw shared:1 - cgroup cgroup rw,memory\n"
                "36 31 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n");
  const std::string base = "/sys/fs/cgroup/memory";
  machine.write(base + "/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  machine.write(base + "/a/memory.limit_in_bytes", std::to_string(kGiB) + "\n");
  machine.write(base + "/a/memory.usage_in_bytes", std::to_string(600 * kMiB) + "\n");
  machine.write(base + "/a/memory.stat", "cache 999\ninactive_file 1\ntotal_inactive_file " +
                                             std::to_string(100 * kMiB) +
                                             "\ntotal_active_file 0\n");
  const MemoryAvailability memory = machine.measure();
  ASSERT_EQ(memory.limits.size(), 1u);
  EXPECT_EQ(memory.ordinary_available(), kGiB - 500 * kMiB);
}

TEST(MemoryBudget, Usage_over_the_limit_leaves_nothing) {
  const CgroupLimit over{"f", 100, 300, 50};
  EXPECT_EQ(over.available(), 0u);
  const CgroupLimit odd{"f", 100, 10, 50};  // the files are read one after the other
  EXPECT_EQ(odd.available(), 100u);
}

TEST(MemoryBudget, What_fits_is_reported) {
  FakeMachine machine;
  auto report = check_budget(
      {.value_bytes = 8 * kGiB, .control_bytes = kGiB, .private_bytes = kGiB}, machine.sources());
  ORLOP_ASSERT_OK(report);
  EXPECT_EQ(report->ordinary_needed, 10 * kGiB);
  EXPECT_THAT(report->text, HasSubstr("MemAvailable"));
}

TEST(MemoryBudget, One_byte_more_is_refused_with_numbers_and_remedy) {
  FakeMachine machine;
  auto report =
      check_budget({.value_bytes = 8 * kGiB + 1, .control_bytes = kGiB, .private_bytes = kGiB},
                   machine.sources());
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, ErrorCode::kNoMemory);
  const std::string& message = report.error().message;
  EXPECT_THAT(message, HasSubstr("10,737,418,241 bytes"));  // needed
  EXPECT_THAT(message, HasSubstr("10,737,418,240 bytes"));  // available
  EXPECT_THAT(message, HasSubstr("MemAvailable"));
  EXPECT_THAT(message, HasSubstr("lower memory.capacity to at most 8.00 GiB"));
}

TEST(MemoryBudget, Refusal_by_a_cgroup_names_its_file) {
  FakeMachine machine;
  machine.v2("/box");
  machine.v2_limit("/box", std::to_string(64 * kMiB), std::to_string(10 * kMiB), "");
  auto report = check_budget({.value_bytes = 200 * kMiB}, machine.sources());
  ASSERT_FALSE(report.has_value());
  EXPECT_THAT(report.error().message, HasSubstr("/box/memory.max = 64.0 MiB"));
}

TEST(MemoryBudget, Control_area_shrinks_with_the_capacity_that_is_offered) {
  FakeMachine machine;  // 10 GiB available: ten twelfths of what is asked
  auto report = check_budget({.value_bytes = kGiB, .control_bytes = 11 * kGiB}, machine.sources());
  ASSERT_FALSE(report.has_value());
  EXPECT_THAT(report.error().message, HasSubstr("at most 853 MiB"));
}

TEST(MemoryBudget, Values_not_taken_now_promise_no_capacity) {
  FakeMachine machine;  // memory.touch = off: only the control area is counted
  auto report = check_budget({.value_bytes = 0, .control_bytes = 11 * kGiB}, machine.sources());
  ASSERT_FALSE(report.has_value());
  EXPECT_THAT(report.error().message, testing::Not(HasSubstr("at most")));
  EXPECT_THAT(report.error().message, HasSubstr("lower memory.capacity"));
}

TEST(MemoryBudget, Sums_that_would_wrap_are_refused) {
  FakeMachine machine;
  auto report = check_budget({.value_bytes = ~0ull, .control_bytes = ~0ull, .private_bytes = 2},
                             machine.sources());
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, ErrorCode::kNoMemory);
}

TEST(MemoryBudget, Huge_pages_are_their_own_pool) {
  FakeMachine machine;
  ORLOP_EXPECT_OK(check_budget({.value_bytes = 12 * kMiB, .control_bytes = 10 * kGiB, .huge = true},
                               machine.sources()));
  auto report = check_budget({.value_bytes = 14 * kMiB, .huge = true}, machine.sources());
  ASSERT_FALSE(report.has_value());
  EXPECT_THAT(report.error().message, HasSubstr("reserve 1 more huge pages of 2.00 MiB"));
}

TEST(MemoryBudget, Hugetlb_cgroup_limits_huge_pages) {
  FakeMachine machine;
  machine.v2("/box");
  machine.write("/sys/fs/cgroup/box/hugetlb.2MB.max", std::to_string(4 * kMiB) + "\n");
  machine.write("/sys/fs/cgroup/box/hugetlb.2MB.current", "0\n");
  auto report = check_budget({.value_bytes = 6 * kMiB, .huge = true}, machine.sources());
  ASSERT_FALSE(report.has_value());
  EXPECT_THAT(report.error().message, HasSubstr("hugetlb.2MB.max"));
}

TEST(MemoryBudget, Locked_memory_counts_only_without_the_capability) {
  FakeMachine machine;
  const BudgetRequest request{.value_bytes = 64 * kMiB, .locked_bytes = 64 * kMiB};
  auto refused = check_budget(request, machine.sources());
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("RLIMIT_MEMLOCK"));
  machine.locked("unlimited", "0000000000000000");
  ORLOP_EXPECT_OK(check_budget(request, machine.sources()));
  machine.locked("8388608", "0000000000004000");
  ORLOP_EXPECT_OK(check_budget(request, machine.sources()));
}

TEST(MemoryBudget, Missing_meminfo_is_an_error_and_no_crash) {
  TestFolder empty;
  EXPECT_FALSE(measure_memory({empty.path()}).has_value());
  FakeMachine machine;
  machine.write("/proc/meminfo", "MemTotal: 5 kB\n");
  EXPECT_THAT(measure_memory(machine.sources()).error().message, HasSubstr("MemAvailable"));
}

TEST(MemoryBudget, This_machine_can_be_measured) {
  auto memory = measure_memory();
  ORLOP_ASSERT_OK(memory);
  EXPECT_GT(memory->machine_total, 0u);
  EXPECT_LE(memory->ordinary_available(), memory->machine_total);
  auto refused = check_budget({.value_bytes = memory->machine_total * 2});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoMemory);
}

}  // namespace
}  // namespace orlop
