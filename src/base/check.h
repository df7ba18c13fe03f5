// SPDX-License-Identifier: Apache-2.0
// Assertions that stay on in release. A cache may die; it may not lie.
//
//   CHECK(cond)             always; prints file:line and the condition, aborts.
//   CHECK(cond, "text")     the same with a reason.
//   DCHECK(cond)            hot paths; only when ORLOP_DCHECK is defined (test and sanitizer
//   builds). SOMETIMES(cond, "name") counts that a rare state was reached; only in simulation
//   builds.
#pragma once

namespace orlop {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const char* reason = "");

// Simulation builds count reached states by name; read the counts through base/sometimes.h.
void sometimes_reached(const char* name);

}  // namespace orlop

#define ORLOP_CHECK_PICK(_1, _2, NAME, ...) NAME
#define ORLOP_CHECK_1(cond) \
  (__builtin_expect(!(cond), 0) ? ::orlop::check_failed(__FILE__, __LINE__, #cond) : (void)0)
#define ORLOP_CHECK_2(cond, why) \
  (__builtin_expect(!(cond), 0) ? ::orlop::check_failed(__FILE__, __LINE__, #cond, why) : (void)0)
#define CHECK(...) ORLOP_CHECK_PICK(__VA_ARGS__, ORLOP_CHECK_2, ORLOP_CHECK_1, _)(__VA_ARGS__)

#ifdef ORLOP_DCHECK
#define DCHECK(...) CHECK(__VA_ARGS__)
#else
#define DCHECK(...) ((void)0)
#endif

#ifdef ORLOP_SIMULATION
#define SOMETIMES(cond, name) ((cond) ? ::orlop::sometimes_reached(name) : (void)0)
#else
#define SOMETIMES(cond, name) ((void)0)
#endif
