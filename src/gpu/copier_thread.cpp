// SPDX-License-Identifier: Apache-2.0
#include "gpu/copier_thread.h"

#include <pthread.h>
#include <signal.h>

#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace orlop::gpu {

Result<std::thread> start_copier_thread(const char* name, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  CHECK(::pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
  Result<std::thread> thread;
  try {
    thread = std::thread(std::move(body));
    ::pthread_setname_np(thread->native_handle(), name);
  } catch (const std::system_error& error) {
    thread = fail(ErrorCode::kSystem, std::string("no thread for copies: ") + error.what() +
                                          "; raise the limit of threads");
  }
  CHECK(::pthread_sigmask(SIG_SETMASK, &before, nullptr) == 0);
  return thread;
}

}  // namespace orlop::gpu
