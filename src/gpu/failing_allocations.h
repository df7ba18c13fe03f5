// SPDX-License-Identifier: Apache-2.0
// Test support: the memory that is not there. Replaces operator new of the whole program: a test
// links orlop_failing_allocations. ThreadSanitizer has an operator new that cannot be replaced;
// tests skip there (kWorks).
//
//   for (std::uint64_t good = 0; !done; ++good) {
//     const FailingAllocation fails(good);
//     try { call(); done = true; } catch (const std::bad_alloc&) { /* nothing may be left */ }
//   }
#pragma once

#include <cstdint>

namespace orlop::gpu::testing {

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ORLOP_NO_FAILING_ALLOCATIONS
#endif
#endif

// On this thread, after so many more that are good, one allocation fails. One at a time.
class FailingAllocation {
 public:
  explicit FailingAllocation(std::uint64_t good);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

#ifdef ORLOP_NO_FAILING_ALLOCATIONS
  static constexpr bool kWorks = false;
#else
  static constexpr bool kWorks = true;
#endif
};

}  // namespace orlop::gpu::testing
