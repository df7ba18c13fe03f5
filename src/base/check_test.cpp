// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <gtest/gtest.h>

#include <string>

namespace orlop {
namespace {

TEST(CheckDeathTest, Check_false_names_place_and_condition) {
  const int slots = 3;
  EXPECT_DEATH(CHECK(slots == 4), "CHECK failed at .*check_test.cpp:[0-9]+: slots == 4\n");
}

TEST(CheckDeathTest, Check_with_reason_prints_it) {
  EXPECT_DEATH(CHECK(1 > 2, "numbers hold"), "1 > 2 \\(numbers hold\\)");
}

TEST(CheckDeathTest, Check_long_condition_is_cut_not_overrun) {
  const std::string reason(5000, 'x');
  EXPECT_DEATH(check_failed("file.cpp", -7, "cond", reason.c_str()), "file.cpp:-7: cond \\(xxx");
}

TEST(Check, True_condition_does_nothing_and_is_evaluated_once) {
  int evaluated = 0;
  CHECK(++evaluated == 1);
  CHECK(++evaluated == 2, "with a reason");
  EXPECT_EQ(evaluated, 2);
}

#ifndef ORLOP_DCHECK
TEST(Check, Dcheck_off_is_not_evaluated) {
  int evaluated = 0;
  DCHECK(++evaluated == 7);
  EXPECT_EQ(evaluated, 0);
}
#endif

}  // namespace
}  // namespace orlop
