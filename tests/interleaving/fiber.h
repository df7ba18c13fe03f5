// SPDX-License-Identifier: Apache-2.0
// A fiber: a stack of its own whose run can be left and entered again in the middle.
//
// Guarantees: the stack is allocated once and used again by every start(). Requires: one OS thread;
// the body catches everything but what it lets the explorer throw. Not known to sanitizers: the
// explorer runs in plain builds.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace orlop::interleaving {

class Fiber {
 public:
  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next entry begins `body`, which must never return: it leaves by switch_context().
  void start(std::function<void()> body);
  ucontext_t& context() { return context_; }

 private:
  static void enter(unsigned low, unsigned high);

  static constexpr std::size_t kStackBytes = 256 * 1024;
  std::unique_ptr<std::byte[]> stack_;
  std::function<void()> body_;
  ucontext_t context_{};
};

// Leaves `from` (comes back when somebody switches to it) and enters `to`.
void switch_context(ucontext_t& from, ucontext_t& to);

}  // namespace orlop::interleaving
