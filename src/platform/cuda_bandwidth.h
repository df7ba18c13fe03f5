// SPDX-License-Identifier: Apache-2.0
// How fast a GPU and the memory of this process copy to each other, through the driver's library
// loaded at run time.
//
// Registers memory of this process, as liborlop does with value memory, so that it also shows
// whether that is allowed. Half a second. Leaves the device as it was. Thread: one; for tools.
#pragma once

#include <cstdint>
#include <string>

namespace orlop {

struct CudaBandwidth {
  static constexpr std::uint64_t kBytes = std::uint64_t{256} << 20;

  bool registered = false;      // kBytes could be registered (pinned)
  double register_seconds = 0;  // that took
  double to_device_gb_s = 0;    // 10^9 bytes a second, the best of a few copies of kBytes
  double from_device_gb_s = 0;  // 0: not measured
  std::string why;              // what failed: call, number and the driver's text; empty: nothing
};

// device: its number as ask_cuda_driver() lists them.
CudaBandwidth measure_cuda_bandwidth(int device, const std::string& library = "libcuda.so.1");

}  // namespace orlop
