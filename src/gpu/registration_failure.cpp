// SPDX-License-Identifier: Apache-2.0
#include "gpu/registration_failure.h"

#include <string>
#include <utility>

#include "base/units.h"
#include "gpu/cuda_call.h"

namespace orlop::gpu {
namespace {

struct Reason {
  ErrorCode code;
  std::string text;
};

// CUDA has one error for both.
Reason no_memory(const RegistrationAttempt& attempt) {
  if (attempt.memlock && *attempt.memlock < attempt.done + attempt.chunk) {
    return {ErrorCode::kNoMemory,
            "the limit of locked memory is " + format_bytes(*attempt.memlock) +
                ": raise it (`ulimit -l unlimited`, LimitMEMLOCK=infinity, docker "
                "`--ulimit memlock=-1`); if that does not help, memory itself is short"};
  }
  return {ErrorCode::kNoMemory,
          "the machine or the cgroup has no memory left to pin (the limit of locked memory is " +
              (attempt.memlock ? format_bytes(*attempt.memlock) : std::string("none")) +
              "): free some, raise the cgroup's limit (memory.max), or give the node a smaller "
              "--capacity"};
}

Reason reason_of(const RegistrationAttempt& attempt) {
  switch (attempt.error) {
    case cudaErrorMemoryAllocation:
      return no_memory(attempt);
    case cudaErrorHostMemoryAlreadyRegistered:
      return {ErrorCode::kWrongState,
              "other code of this process has registered this memory: let it call "
              "cudaHostUnregister first"};
    case cudaErrorNotPermitted:
    case cudaErrorNotSupported:
    case cudaErrorOperatingSystem:
      return {ErrorCode::kSystem,
              "pinning memory is not allowed here: look into the kernel's log (dmesg) for the "
              "driver's words, and at what the container or virtual machine forbids; `orlop "
              "doctor` tries it alone (gpu_registration)"};
    default:
      return {ErrorCode::kSystem,
              "an error of the device, maybe of work submitted before: `orlop doctor` tries "
              "registration alone (gpu_registration)"};
  }
}

}  // namespace

Error registration_failure(const RegistrationAttempt& attempt) {
  Error failure = cuda_failure(attempt.error, "cudaHostRegister").error();
  Reason reason = reason_of(attempt);
  failure.code = reason.code;
  failure.message += ": " + format_bytes(attempt.done) + " of " + format_bytes(attempt.all) +
                     " of value memory were registered; " + reason.text;
  return failure;
}

}  // namespace orlop::gpu
