// SPDX-License-Identifier: Apache-2.0
#include "platform/cuda_driver.h"

#include <gtest/gtest.h>

#include "platform/cuda_bandwidth.h"

namespace orlop {
namespace {

TEST(CudaDriver, An_absent_library_is_told_with_the_loaders_words) {
  const CudaDriver driver = ask_cuda_driver("liborlop-no-such-driver.so.1");
  EXPECT_FALSE(driver.present);
  EXPECT_FALSE(driver.works);
  EXPECT_NE(driver.why.find("liborlop-no-such-driver.so.1"), std::string::npos) << driver.why;
}

TEST(CudaDriver, Another_library_is_no_driver) {
  const CudaDriver driver = ask_cuda_driver("libm.so.6");
  EXPECT_FALSE(driver.present);
  EXPECT_EQ(driver.why, "libm.so.6 is no CUDA driver: it lacks functions of one");
}

TEST(CudaDriver, Of_this_machine_is_consistent) {
  const CudaDriver driver = ask_cuda_driver();
  EXPECT_EQ(driver.works, driver.why.empty()) << driver.why;
  EXPECT_EQ(driver.works && driver.version <= 0, false) << driver.version;
  EXPECT_EQ(!driver.present && !driver.devices.empty(), false);
  for (const CudaDevice& device : driver.devices) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_GT(device.compute_major, 0);
    EXPECT_GT(device.memory_bytes, 0u);
  }
}

TEST(CudaDriver, Bandwidth_without_a_driver_is_told_to_be_none) {
  for (const char* library : {"liborlop-no-such-driver.so.1", "libm.so.6"}) {
    const CudaBandwidth measured = measure_cuda_bandwidth(0, library);
    EXPECT_FALSE(measured.registered);
    EXPECT_EQ(measured.to_device_gb_s, 0);
    EXPECT_EQ(measured.why, std::string(library) + " is no CUDA driver that can copy");
  }
}

TEST(CudaDriver, Bandwidth_of_this_machine_is_measured_where_there_is_a_device) {
  const CudaDriver driver = ask_cuda_driver();
  const CudaBandwidth measured = measure_cuda_bandwidth(0);
  const bool device = driver.works && !driver.devices.empty();
  EXPECT_EQ(device, measured.why.empty()) << measured.why;
  EXPECT_EQ(device, measured.to_device_gb_s > 0 && measured.from_device_gb_s > 0);
}

}  // namespace
}  // namespace orlop
