// SPDX-License-Identifier: Apache-2.0
#include "cache_memory.h"

namespace orlop::gpu_test {

Result<std::unique_ptr<CacheMemory>> make_device_memory(std::uint64_t) {
  return fail(ErrorCode::kInvalidArgument,
              "this program was built without CUDA; use --memory host or build with "
              "-DORLOP_WITH_CUDA=ON");
}

}  // namespace orlop::gpu_test
