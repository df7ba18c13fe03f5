// SPDX-License-Identifier: Apache-2.0
// The GPUs as Orlop's copies meet them: link, memory nodes, bandwidth, registration. Measured
// (measure_gpus: loads the driver's library, half a second a device) and judged (pure). Check
// names: gpu_link, gpu_numa, gpu_copy, gpu_registration; none without a device.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/doctor_check.h"
#include "orlop/error.h"
#include "platform/cuda_bandwidth.h"
#include "platform/cuda_driver.h"
#include "platform/pci_link.h"

namespace orlop::cli {

struct GpuFacts {
  std::string name;
  // Read right after the copies, while the link still runs at full speed.
  Result<PciLink> link = fail(ErrorCode::kSystem, "not looked at");
  CudaBandwidth bandwidth;
  // From the device's memory node, 10 = the same: to the one that this process runs on, and to the
  // one that holds most of the node's value memory. None: not told.
  std::optional<int> distance_here, distance_to_values;
};

struct GpuSurroundings {
  std::optional<int> node_here;       // memory node of this process
  std::optional<int> node_of_values;  // that has most of the value memory; none without a node
  std::optional<std::uint64_t> lockable_bytes;  // memlock; none: no limit
  std::uint64_t value_bytes = 0;                // of the running node; 0: none
};

std::vector<GpuFacts> measure_gpus(const CudaDriver& driver, const GpuSurroundings& around);
// Nothing when there are no devices.
std::vector<Check> judge_gpus(const std::vector<GpuFacts>& gpus, const GpuSurroundings& around);

}  // namespace orlop::cli
