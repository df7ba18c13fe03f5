// SPDX-License-Identifier: Apache-2.0
#include "platform/epoll_loop.h"

#include <gtest/gtest.h>

#include <set>

#include "platform/clock.h"
#include "platform/event_fd.h"
#include "platform/process.h"
#include "platform/test_process.h"

namespace orlop {
namespace {

EpollLoop make() {
  auto loop = EpollLoop::create();
  EXPECT_TRUE(loop.has_value()) << loop.error().message;
  return std::move(*loop);
}

TEST(EpollLoop, Event_comes_with_its_tag) {
  EpollLoop loop = make();
  auto bell = EventFd::create();
  ORLOP_ASSERT_OK(bell);
  ORLOP_ASSERT_OK(loop.add(bell->fd(), EPOLLIN, 0xabcdef0123456789));
  EXPECT_TRUE(loop.wait(0)->empty());
  bell->ring();
  auto events = loop.wait(kNever);
  ORLOP_ASSERT_OK(events);
  ASSERT_EQ(events->size(), 1u);
  EXPECT_EQ((*events)[0].tag, 0xabcdef0123456789u);
  EXPECT_EQ((*events)[0].events, static_cast<std::uint32_t>(EPOLLIN));
}

TEST(EpollLoop, Level_repeats_and_edge_does_not) {
  EpollLoop loop = make();
  auto level = EventFd::create();
  auto edge = EventFd::create();
  ORLOP_ASSERT_OK(loop.add(level->fd(), EPOLLIN, 1));
  ORLOP_ASSERT_OK(loop.add(edge->fd(), EPOLLIN | EPOLLET, 2));
  level->ring();
  edge->ring();
  EXPECT_EQ(loop.wait(0)->size(), 2u);
  auto again = loop.wait(0);
  ASSERT_EQ(again->size(), 1u);
  EXPECT_EQ((*again)[0].tag, 1u);
  edge->ring();  // a new edge
  EXPECT_EQ(loop.wait(0)->size(), 2u);
}

TEST(EpollLoop, Modify_and_remove_take_effect) {
  EpollLoop loop = make();
  auto bell = EventFd::create();
  ORLOP_ASSERT_OK(loop.add(bell->fd(), EPOLLIN, 1));
  bell->ring();
  ORLOP_ASSERT_OK(loop.modify(bell->fd(), EPOLLIN, 5));
  EXPECT_EQ((*loop.wait(0))[0].tag, 5u);
  ORLOP_ASSERT_OK(loop.remove(bell->fd()));
  EXPECT_TRUE(loop.wait(0)->empty());
}

TEST(EpollLoop, Wrong_order_of_calls_is_told) {
  EpollLoop loop = make();
  auto bell = EventFd::create();
  EXPECT_EQ(loop.remove(bell->fd()).error().code, ErrorCode::kWrongState);
  EXPECT_EQ(loop.modify(bell->fd(), EPOLLIN, 1).error().code, ErrorCode::kWrongState);
  ORLOP_ASSERT_OK(loop.add(bell->fd(), EPOLLIN, 1));
  EXPECT_EQ(loop.add(bell->fd(), EPOLLIN, 1).error().code, ErrorCode::kWrongState);
  EXPECT_EQ(loop.add(-1, EPOLLIN, 1).error().code, ErrorCode::kSystem);
}

TEST(EpollLoop, Timeout_below_a_millisecond_is_kept) {
  EpollLoop loop = make();
  const MonoNs before = monotonic_ns();
  EXPECT_TRUE(loop.wait(300 * kNsPerUs)->empty());
  EXPECT_GE(monotonic_ns() - before, 300 * kNsPerUs);
}

TEST(EpollLoop, Death_of_a_process_is_an_event) {
  EpollLoop loop = make();
  ForkedChild child(sleep_until_killed);
  auto pidfd = PidFd::of_process(child.pid());
  ORLOP_ASSERT_OK(pidfd);
  ORLOP_ASSERT_OK(loop.add(pidfd->fd(), EPOLLIN, 77));
  EXPECT_TRUE(loop.wait(0)->empty());
  child.kill_and_wait();
  auto events = loop.wait(kNever);
  ASSERT_EQ(events->size(), 1u);
  EXPECT_EQ((*events)[0].tag, 77u);
}

TEST(EpollLoop, More_events_than_one_wait_takes_all_come) {
  EpollLoop loop = make();
  std::vector<EventFd> bells;
  for (std::size_t i = 0; i < EpollLoop::kMaxEvents + 50; ++i) {
    bells.push_back(std::move(*EventFd::create()));
    ORLOP_ASSERT_OK(loop.add(bells.back().fd(), EPOLLIN | EPOLLET, i));
    bells.back().ring();
  }
  std::set<std::uint64_t> seen;
  for (auto events = loop.wait(0); !events->empty(); events = loop.wait(0)) {
    EXPECT_LE(events->size(), EpollLoop::kMaxEvents);
    for (const EpollEvent& event : *events) EXPECT_TRUE(seen.insert(event.tag).second);
  }
  EXPECT_EQ(seen.size(), bells.size());
}

}  // namespace
}  // namespace orlop
