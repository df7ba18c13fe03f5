// SPDX-License-Identifier: Apache-2.0
// Functions of the NVIDIA driver's library, found at run time by name, and what it says of
// failures.
#pragma once

#include <dlfcn.h>

#include <string>

namespace orlop {

// cuGetErrorString. The driver's results are ints, 0 is success.
using CudaErrorText = int (*)(int status, const char** text);

// False: the library has no such symbol. `Function` must be the symbol's type (cuda.h).
template <class Function>
bool find_cuda_function(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
  return function != nullptr;
}

// Words for a call that returned `status`, not 0.
inline std::string cuda_failure(CudaErrorText error_text, const char* call, int status) {
  const char* text = nullptr;
  if (error_text(status, &text) != 0 || text == nullptr) text = "unknown error";
  return std::string(call) + " failed: " + text + " (" + std::to_string(status) + ")";
}

}  // namespace orlop
