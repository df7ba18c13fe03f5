// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_syscalls.h"

#include <signal.h>
#include <sys/prctl.h>
#include <ucontext.h>

#include <cerrno>

#include "platform/system_error.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_OFF 0
#define PR_SYS_DISPATCH_ON 1
#endif

namespace orlop::cli {

#if defined(__x86_64__)
namespace {

// Values of the selector byte, fixed by the kernel's interface.
constexpr char kAllow = 0;
constexpr char kBlock = 1;
constexpr int kSyscallInstructionBytes = 2;

volatile char selector = kAllow;
volatile sig_atomic_t seen = 0;

// The kernel has undone the call (rax is its number again) and stands behind the instruction.
void on_system_call(int, siginfo_t*, void* context) {
  seen = 1;
  selector = kAllow;  // also for the return from this handler
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP] -= kSyscallInstructionBytes;
}

}  // namespace

Result<bool> makes_system_calls(const std::function<void()>& body) {
  struct sigaction action{};
  struct sigaction before{};
  action.sa_sigaction = on_system_call;
  action.sa_flags = SA_SIGINFO;
  if (::sigaction(SIGSYS, &action, &before) != 0) return system_failure("sigaction", errno);
  seen = 0;
  selector = kAllow;
  if (::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector) != 0) {
    const int error = errno;
    ::sigaction(SIGSYS, &before, nullptr);
    return fail(ErrorCode::kRefused, "this kernel has no PR_SET_SYSCALL_USER_DISPATCH (errno " +
                                         std::to_string(error) +
                                         "): system calls cannot be counted");
  }
  selector = kBlock;
  body();
  selector = kAllow;
  (void)::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0);
  ::sigaction(SIGSYS, &before, nullptr);
  return seen != 0;
}
#else
Result<bool> makes_system_calls(const std::function<void()>&) {
  return fail(ErrorCode::kRefused, "system calls are counted on x86-64 only");
}
#endif

}  // namespace orlop::cli
