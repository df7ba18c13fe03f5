// SPDX-License-Identifier: Apache-2.0
#include "gpu/failing_allocations.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace orlop::gpu::testing {
namespace {

thread_local bool t_fails = false;
thread_local std::uint64_t t_good = 0;

[[maybe_unused]] void* allocate(std::size_t bytes) {
  if (t_fails && t_good-- == 0) {
    t_fails = false;
    throw std::bad_alloc();
  }
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

FailingAllocation::FailingAllocation(std::uint64_t good) {
  t_good = good;
  t_fails = true;
}

FailingAllocation::~FailingAllocation() {
  t_fails = false;
}

}  // namespace orlop::gpu::testing

#ifndef ORLOP_NO_FAILING_ALLOCATIONS
void* operator new(std::size_t bytes) {
  return orlop::gpu::testing::allocate(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}
#endif
