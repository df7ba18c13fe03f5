// SPDX-License-Identifier: Apache-2.0
// Whether this process can use NVIDIA GPUs: asks the driver's library, which is loaded at run time,
// so that nothing of CUDA is needed to build or to run without one.
//
// cuInit takes up to a second and opens /dev/nvidia*: for tools, not for a process that forks.
// Thread: one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orlop {

struct CudaDevice {
  std::string name;
  int compute_major = 0, compute_minor = 0;  // 9.0 of an H200
  std::uint64_t memory_bytes = 0;
  std::string pci_address;  // "0000:1B:00.0"; empty: the driver does not tell
};

struct CudaDriver {
  bool present = false;  // libcuda.so.1 could be loaded
  bool works = false;    // cuInit succeeded and its devices could be read
  int version = 0;       // CUDA version that the driver can do, 1000 * major + 10 * minor
  std::vector<CudaDevice> devices;
  // In words, when it is absent (the loader's message) or fails (call, number, the driver's text).
  std::string why;
};

// library: name or path of the driver's library.
CudaDriver ask_cuda_driver(const std::string& library = "libcuda.so.1");

}  // namespace orlop
