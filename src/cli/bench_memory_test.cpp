// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_memory.h"

#include <gtest/gtest.h>

namespace orlop::cli {
namespace {

SmapsEntry entry(std::string name, std::uint64_t rss, std::uint64_t private_dirty) {
  SmapsEntry made;
  made.name = std::move(name);
  made.totals.rss = rss;
  made.totals.private_dirty = private_dirty;
  return made;
}

// A memfd page that only one process has mapped counts as its private memory in smaps.
TEST(NodeMemory, Memfds_are_no_private_memory_and_only_the_control_area_is_counted) {
  const std::vector<SmapsEntry> entries = {entry("[heap]", 100, 90),
                                           entry("[anonymous]", 50, 50),
                                           entry("/memfd:orlop-control (deleted)", 1000, 1000),
                                           entry("/memfd:orlop-value (deleted)", 5000, 5000),
                                           entry("/memfd:orlop-channel (deleted)", 70, 70),
                                           entry("/usr/bin/orlop", 30, 3)};
  EXPECT_EQ(private_bytes(entries), 143u);
  EXPECT_EQ(control_bytes(entries), 1000u);
}

}  // namespace
}  // namespace orlop::cli
