// SPDX-License-Identifier: Apache-2.0
#include "platform/cuda_driver.h"

#include <dlfcn.h>

#include <array>

#include "platform/cuda_library.h"

namespace orlop {
namespace {

// The driver's ABI (cuda.h): CUresult and CUdevice are ints, success is 0.
using Status = int;
using Device = int;
constexpr int kComputeMajor = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kComputeMinor = 76;

// Functions of the loaded library. It stays loaded: the driver has threads of its own after cuInit.
struct Functions {
  Status (*init)(unsigned) = nullptr;
  Status (*version)(int*) = nullptr;
  Status (*count)(int*) = nullptr;
  Status (*device)(Device*, int) = nullptr;
  Status (*name)(char*, int, Device) = nullptr;
  Status (*attribute)(int*, int, Device) = nullptr;
  Status (*memory)(std::size_t*, Device) = nullptr;
  Status (*pci)(char*, int, Device) = nullptr;
  CudaErrorText error_text = nullptr;
};

bool load(void* library, Functions& f) {
  return find_cuda_function(library, "cuInit", f.init) &&
         find_cuda_function(library, "cuDriverGetVersion", f.version) &&
         find_cuda_function(library, "cuDeviceGetCount", f.count) &&
         find_cuda_function(library, "cuDeviceGet", f.device) &&
         find_cuda_function(library, "cuDeviceGetName", f.name) &&
         find_cuda_function(library, "cuDeviceGetAttribute", f.attribute) &&
         find_cuda_function(library, "cuDeviceTotalMem_v2", f.memory) &&
         find_cuda_function(library, "cuDeviceGetPCIBusId", f.pci) &&
         find_cuda_function(library, "cuGetErrorString", f.error_text);
}

std::string failure(const Functions& f, const char* call, Status status) {
  return cuda_failure(f.error_text, call, status);
}

// Empty, or what failed.
std::string read_device(const Functions& f, int index, CudaDevice& out) {
  Device device = 0;
  if (const Status status = f.device(&device, index)) return failure(f, "cuDeviceGet", status);
  std::array<char, 256> name{};
  std::size_t bytes = 0;
  if (const Status status = f.name(name.data(), static_cast<int>(name.size()) - 1, device)) {
    return failure(f, "cuDeviceGetName", status);
  }
  if (const Status status = f.attribute(&out.compute_major, kComputeMajor, device)) {
    return failure(f, "cuDeviceGetAttribute", status);
  }
  if (const Status status = f.attribute(&out.compute_minor, kComputeMinor, device)) {
    return failure(f, "cuDeviceGetAttribute", status);
  }
  if (const Status status = f.memory(&bytes, device)) {
    return failure(f, "cuDeviceTotalMem", status);
  }
  std::array<char, 32> pci{};
  if (f.pci(pci.data(), static_cast<int>(pci.size()) - 1, device) == 0)
    out.pci_address = pci.data();
  out.name = name.data();
  out.memory_bytes = bytes;
  return {};
}

std::string read_devices(const Functions& f, CudaDriver& driver) {
  if (const Status status = f.init(0)) return failure(f, "cuInit", status);
  int count = 0;
  if (const Status status = f.count(&count)) return failure(f, "cuDeviceGetCount", status);
  for (int i = 0; i < count; ++i) {
    CudaDevice device;
    std::string failed = read_device(f, i, device);
    if (!failed.empty()) return failed;
    driver.devices.push_back(std::move(device));
  }
  return {};
}

}  // namespace

CudaDriver ask_cuda_driver(const std::string& library) {
  CudaDriver driver;
  void* const loaded = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    const char* text = ::dlerror();
    driver.why = text != nullptr ? text : library + " cannot be loaded";
    return driver;
  }
  Functions functions;
  if (!load(loaded, functions)) {
    driver.why = library + " is no CUDA driver: it lacks functions of one";
    ::dlclose(loaded);
    return driver;
  }
  driver.present = true;
  (void)functions.version(&driver.version);  // works without a device; 0 when even that fails
  driver.why = read_devices(functions, driver);
  driver.works = driver.why.empty();
  return driver;
}

}  // namespace orlop
