// SPDX-License-Identifier: Apache-2.0
// The explorer itself: the litmus tests of x86-TSO come out as the processor manuals say.
#include "explorer.h"

#include <gtest/gtest.h>

#include <memory>

#include "schedule.h"
#include "segment/atomics.h"

namespace orlop::interleaving {
namespace {

using segment::Atomic;

struct Litmus : Program {
  Atomic<std::uint64_t> x{0}, y{0};
  std::uint64_t seen[2] = {0, 0};
  bool fenced = false;

  unsigned fibers() const override { return 2; }
  void reset() override { seen[0] = seen[1] = 0; }
};

// x = 1; r0 = y   |   y = 1; r1 = x   both may read 0, unless both fence.
struct StoreBuffering : Litmus {
  void run(unsigned fiber) override {
    (fiber == 0 ? x : y).store(1, std::memory_order_relaxed);
    if (fenced) segment::full_fence();
    seen[fiber] = (fiber == 0 ? y : x).load(std::memory_order_relaxed);
  }
  void verify() override { require(seen[0] + seen[1] > 0, "both read 0"); }
};

// x = 1; y = 1   |   r0 = y; r1 = x   never 1 and 0: stores become visible in order.
struct MessagePassing : Litmus {
  void run(unsigned fiber) override {
    if (fiber == 0) {
      x.store(1, std::memory_order_relaxed);
      y.store(1, std::memory_order_release);
    } else {
      seen[0] = y.load(std::memory_order_acquire);
      seen[1] = x.load(std::memory_order_relaxed);
    }
  }
  void verify() override { require(seen[0] == 0 || seen[1] == 1, "the later store came first"); }
};

// A load and a store where one read-modify-write is needed.
struct LostUpdate : Litmus {
  bool atomic = false;
  void run(unsigned) override {
    if (atomic) {
      x.fetch_add(1);
    } else {
      x.store(x.load() + 1);
    }
  }
  void verify() override { require(x.load() == 2, "an update is lost"); }
};

// A writer that may die between two stores, the second of which promises the first.
struct DyingWriter : Litmus {
  bool backwards = false;
  bool may_be_abandoned(unsigned fiber) const override { return fiber == 0; }
  void run(unsigned fiber) override {
    if (fiber == 1) return;
    (backwards ? y : x).store(1);
    (backwards ? x : y).store(1);
  }
  void verify() override { require(y.load() == 0 || x.load() == 1, "promised and not there"); }
};

// Nobody rings: both sleep for ever.
struct Sleepers : Litmus {
  bool rings = false;
  void run(unsigned fiber) override {
    if (fiber == 0) {
      if (rings) x.store(1);
      return;
    }
    auto frames_are_destroyed = std::make_unique<int>(0);
    sleep_until([this] { return x.load() == 1; });
    x.store(0);
  }
};

TEST(Explorer, Store_buffering_without_fence_reads_old_on_both_sides) {
  StoreBuffering program;
  const Report report = expect_broken("store buffering", program, {.budget = 2});
  ASSERT_TRUE(report.finding);
  EXPECT_EQ(report.finding->budget, 1U);  // a fiber ends with its store in the buffer
  program.fenced = true;
  expect_clean("store buffering, fenced", program, {.budget = 6});
}

TEST(Explorer, Message_passing_never_reorders) {
  MessagePassing program;
  expect_clean("message passing", program, {.budget = 6});
}

TEST(Explorer, Update_in_two_accesses_is_lost) {
  LostUpdate program;
  expect_broken("load and store", program, {.budget = 1});
  program.atomic = true;
  expect_clean("read-modify-write", program, {.budget = 6});
}

TEST(Explorer, Abandoned_between_two_stores_shows_half) {
  DyingWriter program;
  expect_clean("the promise last", program, {.budget = 3});
  program.backwards = true;
  expect_broken("the promise first", program, {.budget = 3});
}

TEST(Explorer, Nobody_rings_is_a_lost_wake_up) {
  Sleepers program;
  expect_broken("no bell", program, {.budget = 1});
  program.rings = true;
  expect_clean("a bell", program, {.budget = 3});
}

TEST(Schedule, Text_round_trips) {
  const char* text = "3s1 12s0k2 30d2n1 41x 50y";
  const auto schedule = parse_schedule(text);
  ASSERT_TRUE(schedule);
  EXPECT_EQ(to_string(*schedule), text);
  EXPECT_FALSE(parse_schedule("3"));
  EXPECT_FALSE(parse_schedule("3q1"));
}

}  // namespace
}  // namespace orlop::interleaving
