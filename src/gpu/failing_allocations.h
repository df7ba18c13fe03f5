// SPDX-License-Identifier: Apache-2.0
// Test support: the memory that is not there. Replaces operator new of the whole program, so
// failing_allocations.cpp is listed among the sources of a test.
//
//   for (std::uint64_t good = 0; !done; ++good) {
//     const FailingAllocation fails(good);
//     try { call(); done = true; } catch (const std::bad_alloc&) { /* nothing may be left */ }
//   }
#pragma once

#include <cstdint>

namespace orlop::gpu::testing {

// On this thread, after so many more that are good, one allocation fails. One at a time.
class FailingAllocation {
 public:
  explicit FailingAllocation(std::uint64_t good);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;
};

}  // namespace orlop::gpu::testing
