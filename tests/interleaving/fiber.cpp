// SPDX-License-Identifier: Apache-2.0
#include "fiber.h"

#include <cstdint>

#include "base/check.h"

namespace orlop::interleaving {

Fiber::Fiber() : stack_(std::make_unique_for_overwrite<std::byte[]>(kStackBytes)) {}

void Fiber::start(std::function<void()> body) {
  body_ = std::move(body);
  CHECK(getcontext(&context_) == 0);
  context_.uc_stack.ss_sp = stack_.get();
  context_.uc_stack.ss_size = kStackBytes;
  context_.uc_link = nullptr;
  // makecontext passes ints only.
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&context_, reinterpret_cast<void (*)()>(&Fiber::enter), 2,
              static_cast<unsigned>(self), static_cast<unsigned>(self >> 32));
}

void Fiber::enter(unsigned low, unsigned high) {
  auto* self = reinterpret_cast<Fiber*>((std::uintptr_t{high} << 32) | low);
  self->body_();
  CHECK(false, "a fiber's body never returns");
}

void switch_context(ucontext_t& from, ucontext_t& to) {
  CHECK(swapcontext(&from, &to) == 0);
}

}  // namespace orlop::interleaving
