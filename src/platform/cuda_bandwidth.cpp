// SPDX-License-Identifier: Apache-2.0
#include "platform/cuda_bandwidth.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>

#include "platform/clock.h"
#include "platform/cuda_library.h"

namespace orlop {
namespace {

// The driver's ABI (cuda.h): results and devices are ints, contexts pointers, device addresses
// 64-bit numbers.
using Status = int;
using Device = int;
using Context = void*;
using Address = unsigned long long;

constexpr int kCopies = 4;  // each way; the first warms up

struct Functions {
  Status (*init)(unsigned) = nullptr;
  Status (*device)(Device*, int) = nullptr;
  Status (*retain)(Context*, Device) = nullptr;
  Status (*release)(Device) = nullptr;
  Status (*push)(Context) = nullptr;
  Status (*pop)(Context*) = nullptr;
  Status (*allocate)(Address*, std::size_t) = nullptr;
  Status (*free)(Address) = nullptr;
  Status (*enroll)(void*, std::size_t, unsigned) = nullptr;
  Status (*expel)(void*) = nullptr;
  Status (*to_device)(Address, const void*, std::size_t) = nullptr;
  Status (*from_device)(void*, Address, std::size_t) = nullptr;
  CudaErrorText error_text = nullptr;
};

bool load(void* library, Functions& f) {
  return find_cuda_function(library, "cuInit", f.init) &&
         find_cuda_function(library, "cuDeviceGet", f.device) &&
         find_cuda_function(library, "cuDevicePrimaryCtxRetain", f.retain) &&
         find_cuda_function(library, "cuDevicePrimaryCtxRelease_v2", f.release) &&
         find_cuda_function(library, "cuCtxPushCurrent_v2", f.push) &&
         find_cuda_function(library, "cuCtxPopCurrent_v2", f.pop) &&
         find_cuda_function(library, "cuMemAlloc_v2", f.allocate) &&
         find_cuda_function(library, "cuMemFree_v2", f.free) &&
         find_cuda_function(library, "cuMemHostRegister_v2", f.enroll) &&
         find_cuda_function(library, "cuMemHostUnregister", f.expel) &&
         find_cuda_function(library, "cuMemcpyHtoD_v2", f.to_device) &&
         find_cuda_function(library, "cuMemcpyDtoH_v2", f.from_device) &&
         find_cuda_function(library, "cuGetErrorString", f.error_text);
}

// True if it succeeded; else says so in `why`.
bool succeeded(const Functions& f, const char* call, Status status, std::string& why) {
  if (status == 0) return true;
  why = cuda_failure(f.error_text, call, status);
  return false;
}

double seconds_since(MonoNs begin) {
  return static_cast<double>(monotonic_ns() - begin) / static_cast<double>(kNsPerSecond);
}

// Best of several, 0 after a failure. A copy of registered memory returns when it is done.
template <class Copy>
double best_gb_s(const Functions& f, const char* call, std::string& why, const Copy& copy) {
  double best = 0;
  for (int i = 0; i < kCopies; ++i) {
    const MonoNs begin = monotonic_ns();
    if (!succeeded(f, call, copy(), why)) return 0;
    best = std::max(best, static_cast<double>(CudaBandwidth::kBytes) / seconds_since(begin) / 1e9);
  }
  return best;
}

void copy_registered(const Functions& f, void* memory, CudaBandwidth& out) {
  Address there = 0;
  if (!succeeded(f, "cuMemAlloc", f.allocate(&there, CudaBandwidth::kBytes), out.why)) return;
  out.to_device_gb_s = best_gb_s(f, "cuMemcpyHtoD", out.why,
                                 [&] { return f.to_device(there, memory, CudaBandwidth::kBytes); });
  out.from_device_gb_s = best_gb_s(f, "cuMemcpyDtoH", out.why, [&] {
    return f.from_device(memory, there, CudaBandwidth::kBytes);
  });
  (void)f.free(there);
}

// With the device's context current.
void measure(const Functions& f, CudaBandwidth& out) {
  void* const memory = ::mmap(nullptr, CudaBandwidth::kBytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) {
    out.why = "no memory of 256 MiB";
    return;
  }
  const MonoNs begin = monotonic_ns();
  out.registered = succeeded(f, "cuMemHostRegister of 256 MiB",
                             f.enroll(memory, CudaBandwidth::kBytes, 0), out.why);
  out.register_seconds = seconds_since(begin);
  if (out.registered) {
    copy_registered(f, memory, out);
    (void)f.expel(memory);
  }
  ::munmap(memory, CudaBandwidth::kBytes);
}

}  // namespace

CudaBandwidth measure_cuda_bandwidth(int device, const std::string& library) {
  CudaBandwidth out;
  // Stays loaded: the driver has threads of its own after cuInit.
  void* const loaded = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  Functions f;
  if (loaded == nullptr || !load(loaded, f)) {
    out.why = library + " is no CUDA driver that can copy";
    return out;
  }
  Device handle = 0;
  Context context = nullptr;
  if (!succeeded(f, "cuInit", f.init(0), out.why) ||
      !succeeded(f, "cuDeviceGet", f.device(&handle, device), out.why) ||
      !succeeded(f, "cuDevicePrimaryCtxRetain", f.retain(&context, handle), out.why)) {
    return out;
  }
  if (succeeded(f, "cuCtxPushCurrent", f.push(context), out.why)) {
    measure(f, out);
    (void)f.pop(&context);
  }
  (void)f.release(handle);
  return out;
}

}  // namespace orlop
