// SPDX-License-Identifier: Apache-2.0
#include "gpu/copier_thread.h"

#include <pthread.h>

#include <string>
#include <system_error>
#include <utility>

#include "base/block_signals.h"

namespace orlop::gpu {

Result<std::thread> start_copier_thread(const char* name, std::function<void()> body) {
  const BlockSignals blocked;
  try {
    std::thread thread(std::move(body));
    ::pthread_setname_np(thread.native_handle(), name);
    return thread;
  } catch (const std::system_error& error) {
    return fail(ErrorCode::kSystem, std::string("no thread for copies: ") + error.what() +
                                        "; raise the limit of threads");
  }
}

}  // namespace orlop::gpu
