// SPDX-License-Identifier: Apache-2.0
// Functions of the NVIDIA driver's library, found at run time by name.
#pragma once

#include <dlfcn.h>

namespace orlop {

// False: the library has no such symbol. `Function` must be the symbol's type (cuda.h).
template <class Function>
bool find_cuda_function(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
  return function != nullptr;
}

}  // namespace orlop
