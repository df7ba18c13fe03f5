// SPDX-License-Identifier: Apache-2.0
#include "node/keeper_memory.h"

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "platform/event_fd.h"

namespace orlop::node {
namespace {

// A signal waits all the time, and is (or is not) one to stop.
Result<runtime::SegmentFiles> make_under_signals(bool stop, int* asked) {
  NodeOptions options;
  options.memory.capacity = 4 * kMiB;
  options.memory.max_value_len = 64 * kKiB;
  const auto signal = EventFd::create().value();
  signal.ring();
  return make_segment(options, {signal.fd(),
                                [&] {
                                  ++*asked;
                                  return stop;
                                },
                                [](const std::string&) {}});
}

TEST(MakeSegment, Signal_that_is_no_stop_does_not_end_it) {
  int asked = 0;
  const auto made = make_under_signals(false, &asked);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_GT(asked, 0);
  EXPECT_EQ(made->touched_bytes, made->value.bytes());
}

TEST(MakeSegment, Stop_ends_it) {
  int asked = 0;
  const auto made = make_under_signals(true, &asked);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kClosed);
}

}  // namespace
}  // namespace orlop::node
