// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orlop::cli {
namespace {

using ::testing::HasSubstr;

GpuFacts good() {
  GpuFacts gpu;
  gpu.name = "NVIDIA H200";
  gpu.link = PciLink{.speed = 32,
                     .most_speed = 32,
                     .width = 16,
                     .most_width = 16,
                     .numa_node = 1,
                     .window_bytes = std::uint64_t{256} << 30};
  gpu.bandwidth = {.registered = true,
                   .register_seconds = 0.05,
                   .to_device_gb_s = 55.4,
                   .from_device_gb_s = 55.3,
                   .why = ""};
  gpu.distance_here = 21;
  gpu.distance_to_values = 10;
  return gpu;
}
GpuSurroundings around() {
  return {.node_here = 0,
          .node_of_values = 1,
          .lockable_bytes = 8 << 20,
          .value_bytes = std::uint64_t{64} << 30};
}

void expect_check(const GpuFacts& gpu, const std::string& name, Verdict verdict,
                  const std::string& words, const GpuSurroundings& surroundings = around()) {
  for (const Check& check : judge_gpus({gpu}, surroundings)) {
    if (check.name != name) continue;
    EXPECT_STREQ(to_string(check.verdict), to_string(verdict)) << check.finding;
    EXPECT_THAT(check.finding, HasSubstr(words));
    EXPECT_EQ(check.remedy.empty(), verdict == Verdict::kOk) << check.remedy;
    return;
  }
  ADD_FAILURE() << "no check " << name;
}

TEST(JudgeGpus, Nothing_is_said_without_a_device) {
  EXPECT_TRUE(judge_gpus({}, around()).empty());
  EXPECT_TRUE(measure_gpus(CudaDriver{}, around()).empty());
}

TEST(JudgeGpus, A_good_device_is_ok_with_all_its_figures) {
  const auto checks = judge_gpus({good()}, around());
  ASSERT_EQ(checks.size(), 4u);
  for (const Check& check : checks) EXPECT_EQ(check.verdict, Verdict::kOk) << check.finding;
  expect_check(good(), "gpu_link", Verdict::kOk,
               "device 0 (NVIDIA H200): PCIe 5 x16, the most it can do, largest BAR 256 GiB");
  expect_check(good(), "gpu_numa", Verdict::kOk,
               "is on node 1, this process on node 0 (distance 21), most value memory on node 1 "
               "(distance 10)");
  expect_check(good(), "gpu_copy", Verdict::kOk,
               "55.4 GB/s to it, 55.3 GB/s from it (256 MiB registered), the link carries 63.0");
  expect_check(good(), "gpu_registration", Verdict::kOk, "could be registered in 50.0 ms");
  expect_check(good(), "gpu_registration", Verdict::kOk, "which this driver does not count");
  expect_check(good(), "gpu_registration", Verdict::kOk, "64.0 GiB once, about 12.8 s");
  EXPECT_EQ(checks[0].figures["devices"][0]["width"], 16);
  EXPECT_EQ(checks[1].figures["devices"][0]["distance_here"], 21);
  EXPECT_EQ(checks[2].figures["devices"][0]["to_device_gb_s"], 55.4);
}

TEST(JudgeGpus, A_link_that_is_held_back_is_a_warning) {
  GpuFacts narrow = good();
  narrow.link->width = 8;
  expect_check(narrow, "gpu_link", Verdict::kWarning, "PCIe 5 x8 of PCIe 5 x16");
  GpuFacts slow = good();
  slow.link->speed = 8;
  expect_check(slow, "gpu_link", Verdict::kWarning, "PCIe 3 x16 of PCIe 5 x16");
}

TEST(JudgeGpus, A_machine_that_does_not_tell_is_no_warning) {
  GpuFacts virtual_one = good();
  virtual_one.link = PciLink{};
  virtual_one.distance_here = virtual_one.distance_to_values = std::nullopt;
  expect_check(virtual_one, "gpu_link", Verdict::kOk, "does not tell its link");
  expect_check(virtual_one, "gpu_numa", Verdict::kOk, "does not tell its memory node");
  expect_check(virtual_one, "gpu_copy", Verdict::kOk, "55.3 GB/s from it (256 MiB registered)");
}

TEST(JudgeGpus, Value_memory_on_another_node_is_a_warning) {
  GpuFacts far = good();
  far.distance_to_values = 21;
  expect_check(far, "gpu_numa", Verdict::kWarning, "most value memory on node 1 (distance 21)");
}

TEST(JudgeGpus, Copies_far_below_the_link_are_a_warning) {
  GpuFacts slow = good();
  slow.bandwidth.from_device_gb_s = 40;
  expect_check(slow, "gpu_copy", Verdict::kWarning, "40.0 GB/s from it");
}

TEST(JudgeGpus, Memory_that_cannot_be_registered_is_a_failure) {
  GpuFacts refused = good();
  refused.bandwidth = {.registered = false,
                       .register_seconds = 0.001,
                       .to_device_gb_s = 0,
                       .from_device_gb_s = 0,
                       .why = "cuMemHostRegister of 256 MiB failed: out of memory (2)"};
  expect_check(refused, "gpu_registration", Verdict::kFailure, "out of memory (2); memlock allows");
  expect_check(refused, "gpu_copy", Verdict::kWarning, "not measured: cuMemHostRegister");
}

TEST(JudgeGpus, Each_device_is_told_apart) {
  GpuFacts second = good();
  second.link->width = 4;
  const auto checks = judge_gpus({good(), second}, around());
  EXPECT_THAT(checks[0].finding, HasSubstr("device 0 (NVIDIA H200): PCIe 5 x16"));
  EXPECT_THAT(checks[0].finding, HasSubstr("device 1 (NVIDIA H200): PCIe 5 x4 of PCIe 5 x16"));
  EXPECT_EQ(checks[0].figures["devices"].size(), 2u);
}

}  // namespace
}  // namespace orlop::cli
