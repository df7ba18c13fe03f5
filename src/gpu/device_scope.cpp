// SPDX-License-Identifier: Apache-2.0
#include "gpu/device_scope.h"

#include <cuda.h>
#include <dlfcn.h>

#include <map>
#include <mutex>
#include <type_traits>

#include "gpu/cuda_call.h"

namespace orlop::gpu {
namespace {

// cudart numbers its errors as the driver does, and has the words.
std::unexpected<Error> driver_failure(CUresult error, const char* call) {
  return cuda_failure(static_cast<cudaError_t>(error), call);
}
constexpr auto kNoDriver = static_cast<CUresult>(cudaErrorInsufficientDriver);  // as cudart says it

// The driver's library, as cudart loads it: programs start where there is none.
class Driver final : public Contexts {
 public:
  Driver() {
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    const auto find = [library](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      return function != nullptr;
    };
    CUresult (*init)(unsigned) = nullptr;
    const bool all = find(init, "cuInit") && find(get_device_, "cuDeviceGet") &&
                     find(retain_, "cuDevicePrimaryCtxRetain") &&
                     find(state_, "cuDevicePrimaryCtxGetState") &&
                     find(get_current_, "cuCtxGetCurrent") && find(push_, "cuCtxPushCurrent_v2") &&
                     find(pop_, "cuCtxPopCurrent_v2") &&
                     find(exchange_capture_mode_, "cuThreadExchangeStreamCaptureMode");
    if (all) status_ = init(0);
  }

  Context current() override {
    CUcontext context = nullptr;
    if (status_ == CUDA_SUCCESS) (void)get_current_(&context);
    return {context};
  }
  Result<Context> primary(int device) override {
    const std::lock_guard lock(mutex_);
    if (const auto known = primaries_.find(device); known != primaries_.end()) {
      return known->second;
    }
    const Result<CUdevice> number = number_of(device);
    if (!number) return std::unexpected(number.error());
    CUcontext context = nullptr;
    if (const CUresult error = retain_(&context, *number); error != CUDA_SUCCESS) {
      return driver_failure(error, "cuDevicePrimaryCtxRetain");
    }
    return primaries_.emplace(device, Context{context}).first->second;
  }
  bool is_made(int device) override {
    const Result<CUdevice> number = number_of(device);
    unsigned flags = 0;
    int active = 0;
    return number && state_(*number, &flags, &active) == CUDA_SUCCESS && active != 0;
  }
  Result<void> push(Context context) override {
    const CUresult error = push_(static_cast<CUcontext>(context.handle));
    if (error != CUDA_SUCCESS) return driver_failure(error, "cuCtxPushCurrent");
    return {};
  }
  void pop() override {
    CUcontext context = nullptr;
    (void)pop_(&context);
  }
  int exchange_capture_mode(int mode) override {
    auto exchanged = static_cast<CUstreamCaptureMode>(mode);
    if (status_ == CUDA_SUCCESS) (void)exchange_capture_mode_(&exchanged);
    return exchanged;
  }

 private:
  Result<CUdevice> number_of(int device) const {
    if (status_ != CUDA_SUCCESS) return driver_failure(status_, "cuInit");
    CUdevice number = 0;
    if (const CUresult error = get_device_(&number, device); error != CUDA_SUCCESS) {
      return driver_failure(error, "cuDeviceGet");
    }
    return number;
  }

  CUresult status_ = kNoDriver;  // of cuInit
  CUresult (*get_device_)(CUdevice*, int) = nullptr;
  CUresult (*retain_)(CUcontext*, CUdevice) = nullptr;
  CUresult (*state_)(CUdevice, unsigned*, int*) = nullptr;
  CUresult (*get_current_)(CUcontext*) = nullptr;
  CUresult (*push_)(CUcontext) = nullptr;
  CUresult (*pop_)(CUcontext*) = nullptr;
  CUresult (*exchange_capture_mode_)(CUstreamCaptureMode*) = nullptr;
  std::mutex mutex_;
  std::map<int, Context> primaries_;
};

}  // namespace

Contexts& driver_contexts() {
  // Never destroyed: memory may be given back while the process ends.
  static Driver* const only = new Driver;
  return *only;
}

RelaxedCapture::RelaxedCapture(Contexts& contexts)
    : contexts_(contexts),
      before_(contexts.exchange_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED)) {}

RelaxedCapture::~RelaxedCapture() {
  (void)contexts_.exchange_capture_mode(before_);
}

DeviceScope::DeviceScope(int device, Contexts& contexts) : contexts_(contexts), relaxed_(contexts) {
  const Result<Context> primary = contexts_.primary(device);
  if (primary) {
    enter(*primary);
  } else {
    entered_ = std::unexpected(primary.error());
  }
}

DeviceScope::DeviceScope(Context context, Contexts& contexts)
    : contexts_(contexts), relaxed_(contexts) {
  if (context != Context{}) enter(context);
}

void DeviceScope::enter(Context context) {
  if (contexts_.current() == context) return;
  entered_ = contexts_.push(context);
  pushed_ = entered_.has_value();
}

DeviceScope::~DeviceScope() {
  if (pushed_) contexts_.pop();
}

AnyContextScope::AnyContextScope(int devices, Contexts& contexts)
    : relaxed_(contexts), found_(contexts.current() != Context{}) {
  for (int device = 0; device < devices && !found_; ++device) {
    if (!contexts.is_made(device)) continue;
    scope_.emplace(device, contexts);
    found_ = scope_->entered().has_value();
  }
}

}  // namespace orlop::gpu
