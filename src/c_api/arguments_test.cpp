// SPDX-License-Identifier: Apache-2.0
// What a process test cannot see: which views the client is given, and for how much memory.
#include "c_api/arguments.h"

#include <gtest/gtest.h>

#include <limits>

namespace orlop::c_api {
namespace {

TEST(KeyViews, Both_forms_are_views_of_the_callers_bytes) {
  const char packed[] = "aabbcc";
  const orlop_keys in_one_buffer{3, nullptr, packed, 2};
  KeyViews views;
  ASSERT_TRUE(views.read(&in_one_buffer));
  ASSERT_EQ(views.get().size(), 3U);
  EXPECT_EQ(views.get()[2], "cc");
  EXPECT_EQ(views.get()[2].data(), packed + 4);

  const orlop_bytes items[] = {{packed, 1}, {packed + 2, 4}};
  const orlop_keys as_array{2, items, nullptr, 0};
  KeyViews others;
  ASSERT_TRUE(others.read(&as_array));
  EXPECT_EQ(others.get()[1], "bbcc");
  EXPECT_EQ(others.get()[1].data(), packed + 2);
}

TEST(KeyViews, Counts_beyond_the_limit_take_no_memory) {
  constexpr std::size_t kHuge = std::numeric_limits<std::size_t>::max();
  const orlop_keys keys{kHuge, nullptr, "x", 1};
  KeyViews views;
  const auto refused = views.read(&keys);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message,
            "keys: has 18446744073709551615 keys, at most 65535 go into "
            "one call; split it");
  EXPECT_TRUE(views.get().empty());
}

TEST(KeyViews, Largest_call_is_read) {
  const std::string packed(65'535 * 4, 'k');
  const orlop_keys keys{65'535, nullptr, packed.data(), 4};
  KeyViews views;
  ASSERT_TRUE(views.read(&keys));
  EXPECT_EQ(views.get().back().data(), packed.data() + packed.size() - 4);
}

TEST(Options, Zero_is_every_default) {
  const orlop_client_options options{.struct_size = sizeof options,
                                     .socket = {},
                                     .name = {},
                                     .call_budget_ms = 0,
                                     .handle_ttl_ms = 0,
                                     .ledger_cells = 0,
                                     .on_ready = nullptr,
                                     .on_ready_context = nullptr};
  const auto read = read_options(&options);
  ASSERT_TRUE(read.has_value());
  const ClientOptions defaults;
  EXPECT_EQ(read->call_budget, defaults.call_budget);
  EXPECT_EQ(read->handle_ttl, defaults.handle_ttl);
  EXPECT_EQ(read->ledger_cells, defaults.ledger_cells);
  EXPECT_FALSE(read->on_ready);
}

TEST(Options, Readiness_is_told_with_the_callers_context) {
  int told = -1;
  orlop_client_options options{};
  options.struct_size = sizeof options;
  options.on_ready = [](void* context, int ready) { *static_cast<int*>(context) = ready; };
  options.on_ready_context = &told;
  const auto read = read_options(&options);
  ASSERT_TRUE(read.has_value());
  read->on_ready(true);
  EXPECT_EQ(told, 1);
  read->on_ready(false);
  EXPECT_EQ(told, 0);
}

TEST(Options, Put_options_arrive) {
  const std::uint32_t groups[] = {2, 1};
  const std::uint8_t mask[] = {1, 1, 0};
  orlop_put_options options{};
  options.struct_size = sizeof options;
  options.atomic_group_lens = groups;
  options.atomic_group_count = 2;
  options.parent = {"p", 1};
  options.replicate_mask = mask;
  options.replicate_mask_count = 3;
  options.flags = ORLOP_PUT_WRITE_THROUGH | ORLOP_PUT_DEADLINE;  // a deadline of 0: do not wait
  const auto read = read_options(&options);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->atomic_group_lens, (std::vector<std::uint32_t>{2, 1}));
  EXPECT_EQ(read->parent, "p");
  EXPECT_EQ(read->replicate_mask, (std::vector<bool>{true, true, false}));
  EXPECT_FALSE(read->replicate);
  EXPECT_TRUE(read->write_through);
  EXPECT_EQ(read->deadline, Milliseconds{0});
}

}  // namespace
}  // namespace orlop::c_api
