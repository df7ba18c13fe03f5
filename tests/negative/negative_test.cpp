// SPDX-License-Identifier: Apache-2.0
// Bad input and faults: an error that names argument, index and remedy; nothing reserved, nothing
// lost. The table is in *_rows.cpp, one file a family; this is what is asked of each row. Built
// twice: on the C++ client, and (ORLOP_THROUGH_C) on liborlop.so, which must say the same words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "rows.h"

namespace orlop::negative_test {
namespace {

using ::testing::HasSubstr;

struct Family {
  const char* name;
  Rows (*rows)();
};
constexpr Family kFamilies[] = {
    {"Arguments", argument_rows},
    {"Plans", plan_rows},
    {"Namespaces", namespace_rows},
    {"Start", start_rows},
    {"Attach", attach_rows},
    {"Hostile", hostile_rows},
    {"Space", space_rows},
    {"Client_faults", client_fault_rows},
    {"Server_faults", server_fault_rows},
    {"Absence", absence_rows},
#ifdef ORLOP_THROUGH_C
    {"C_calls", c_rows},
    {"C_page_caches", c_page_rows},
#endif
};

void run(const Row& row, World& world) {
  SCOPED_TRACE(row.name);
  const Result<void> result = row.act(world);
  if (row.code.has_value() && result.has_value()) {
    ADD_FAILURE() << "was accepted";
  } else if (!result.has_value() && !row.code.has_value()) {
    ADD_FAILURE() << to_string(result.error().code) << ": " << result.error().message;
  } else if (!result.has_value()) {
    EXPECT_EQ(to_string(result.error().code), to_string(*row.code)) << result.error().message;
    for (const std::string& words : row.says) EXPECT_THAT(result.error().message, HasSubstr(words));
  }
  world.expect_sound();
}

class Negative : public ::testing::TestWithParam<Family> {};

TEST_P(Negative, Rows_answer_as_promised_and_leave_nothing_behind) {
  std::unique_ptr<World> shared;
  for (const Row& row : GetParam().rows()) {
    if (row.world.has_value()) {
      World own(*row.world);
      ASSERT_TRUE(own.ok()) << row.name << ": " << own.daemon().log();
      run(row, own);
      continue;
    }
    if (shared == nullptr) shared = std::make_unique<World>();
    ASSERT_TRUE(shared->ok()) << shared->daemon().log();
    run(row, *shared);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Negative, ::testing::ValuesIn(kFamilies),
                         [](const auto& family) { return std::string(family.param.name); });

TEST(NegativeTable, Every_item_has_a_row) {
  std::array<int, static_cast<std::size_t>(Item::kCount)> rows{};
  for (const Family& family : kFamilies) {
    for (const Row& row : family.rows()) ++rows[static_cast<std::size_t>(row.item)];
  }
  for (std::size_t item = 0; item < rows.size(); ++item) {
#ifndef ORLOP_THROUGH_C
    if (item == static_cast<std::size_t>(Item::kCallFromC)) continue;
#endif
    EXPECT_GT(rows[item], 0) << item;
  }
}

}  // namespace
}  // namespace orlop::negative_test
