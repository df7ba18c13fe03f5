// SPDX-License-Identifier: Apache-2.0
// Internal to room gpu: which device a thread's CUDA calls go to.
//
// Not by cudaSetDevice: putting back "device 0" for a thread that never chose one makes a context
// there, some hundred MiB of a GPU that this process does not use (every rank but the first of a
// tensor parallel engine). The driver's stack of contexts gives back exactly what was there, also
// nothing and also a context of the caller's own.
//
// In a scope calls are also allowed that make memory while another thread captures a CUDA graph
// (mode "relaxed"). Without that such a call fails, and so does the capture: the engine that begins
// it just then does not start.
// Thread: any; a scope ends on the thread that began it, scopes nest.
#pragma once

#include <optional>

#include "orlop/error.h"

namespace orlop::gpu {

// CUcontext; null: none.
struct Context {
  void* handle = nullptr;
  bool operator==(const Context&) const = default;
};

// What of the driver a scope needs. Tests have one of their own.
class Contexts {
 public:
  virtual ~Contexts() = default;
  // Of the calling thread.
  virtual Context current() = 0;
  // The device's primary context, which the CUDA runtime uses; made when there is none. Kept for
  // the life of the process. kSystem: no driver, no such device; kNoMemory.
  virtual Result<Context> primary(int device) = 0;
  // Whether somebody in this process has made it. Makes none.
  virtual bool is_made(int device) = 0;
  virtual Result<void> push(Context context) = 0;
  virtual void pop() = 0;
  // Of the calling thread: what other threads' captures forbid it (cudaStreamCaptureMode). Returns
  // the mode before.
  virtual int exchange_capture_mode(int mode) = 0;
};
Contexts& driver_contexts();

// For as long as it lives other threads' captures forbid this thread nothing; then again what they
// did before. Thread: begins and ends on the same one; nests.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(Contexts& contexts);
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  Contexts& contexts_;
  const int before_;
};

class DeviceScope {
 public:
  explicit DeviceScope(int device, Contexts& contexts = driver_contexts());
  // Of what was made in this context; none: everything stays as it is.
  explicit DeviceScope(Context context, Contexts& contexts = driver_contexts());
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  // To be asked before anything is made: it would be made on another device. Calls with streams or
  // events fail by themselves.
  const Result<void>& entered() const { return entered_; }

 private:
  void enter(Context context);

  Contexts& contexts_;
  const RelaxedCapture relaxed_;
  Result<void> entered_;
  bool pushed_ = false;
};

// A context for questions that belong to no device (cudaPointerGetAttributes), which else would
// make one on device 0: the thread's own, or one that is there already. Null: this process has no
// primary context among `devices`, and so no memory of them either.
class AnyContextScope {
 public:
  explicit AnyContextScope(int devices, Contexts& contexts = driver_contexts());
  explicit operator bool() const { return found_; }

 private:
  const RelaxedCapture relaxed_;
  std::optional<DeviceScope> scope_;
  bool found_ = false;
};

}  // namespace orlop::gpu
