// SPDX-License-Identifier: Apache-2.0
// Session across deaths and returns of the server.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/planted.h"
#include "protocol/session/fake_node.h"
#include "protocol/session/session.h"

namespace orlop::protocol {
namespace {

using testing::FakeNode;
using testing::numbered_keys;

class SessionResumeTest : public ::testing::Test {
 protected:
  ~SessionResumeTest() override { g_planted_bug = PlantedBug::kNone; }

  Posted post_put(std::uint64_t cookie = 1) {
    const std::vector<KeyId> ids = numbered_keys(1);
    return session_.put_start(
        {.row = NamespaceRow{0}, .value_len = 4096, .wait_us = 0, .keys = ids}, cookie);
  }
  PutId hold_put() {
    const Posted posted = post_put();
    node_.answer_put(node_.take(), {true});
    EXPECT_EQ(session_.next(&answer_), Session::Next::kAnswer);
    return posted.put;
  }
  void commit(PutId put, std::uint64_t cookie) {
    session_.commit(put, {{.slot = 100, .generation = 5, .checksum = put.value}}, cookie);
    session_.pump();
  }
  ResumeSnapshot die_and_reset() {
    session_.lost();
    return session_.reset();
  }
  void come_back() {
    node_.start();
    session_.resumed();
    session_.pump();
  }

  FakeNode node_;
  Session session_ = node_.make_session();
  Answer answer_;
};

TEST_F(SessionResumeTest, Snapshot_names_open_puts_and_kept_commits_only) {
  const PutId open = hold_put();
  const PutId committed = hold_put();
  const PutId aborted = hold_put();
  const PutId ending = hold_put();
  commit(committed, 3);
  session_.register_copy(ending);
  session_.abort(ending);
  session_.abort(aborted);
  session_.pump();
  ASSERT_EQ(post_put().result, Post::kPosted);  // not answered: not held
  const ResumeSnapshot snapshot = die_and_reset();
  EXPECT_EQ(snapshot.held, (std::vector<PutId>{open, committed, ending}));
  ASSERT_EQ(snapshot.lost.size(), 1U);
  EXPECT_EQ(snapshot.lost[0].code, RequestCode::kPutStart);
}

TEST_F(SessionResumeTest, Answered_but_not_consumed_put_start_is_not_held) {
  const Posted posted = post_put();
  node_.answer_put(node_.take(), {true});
  const ResumeSnapshot snapshot = die_and_reset();
  EXPECT_TRUE(snapshot.held.empty());
  EXPECT_EQ(session_.next(&answer_), Session::Next::kNone);
  come_back();
  EXPECT_EQ(session_.next(&answer_), Session::Next::kNone);
  EXPECT_FALSE(session_.holds(posted.put));
}

TEST_F(SessionResumeTest, Answers_left_by_the_dead_server_may_be_consumed_before_the_reset) {
  const Posted posted = post_put();
  node_.answer_put(node_.take(), {true});
  session_.lost();
  ASSERT_EQ(session_.next(&answer_), Session::Next::kAnswer);
  EXPECT_EQ(session_.reset().held, std::vector<PutId>{posted.put});
}

TEST_F(SessionResumeTest, Reset_empties_both_rings_and_raises_the_generation) {
  post_put();
  const std::uint32_t before = node_.channel().header().ring_generation.load();
  const ResumeSnapshot snapshot = die_and_reset();
  const segment::ChannelHeader& header = node_.channel().header();
  EXPECT_EQ(snapshot.ring_generation, before + 1);
  EXPECT_EQ(header.ring_generation.load(), before + 1);
  EXPECT_EQ(header.request_tail.load() | header.request_head.load() | header.response_tail.load() |
                header.response_head.load(),
            0U);
  come_back();
  ASSERT_EQ(session_.ping(1).result, Post::kPosted);
  EXPECT_EQ(node_.take().ring_generation, before + 1);
}

TEST_F(SessionResumeTest, Kept_commits_are_posted_again_in_commit_order) {
  const PutId first = hold_put();
  const PutId second = hold_put();
  commit(second, 22);
  commit(first, 11);
  node_.take_all();
  die_and_reset();
  come_back();
  const std::vector<segment::RingMessage> again = node_.take_all();
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[0].args[0], second.value);
  EXPECT_EQ(again[1].args[0], first.value);
  EXPECT_EQ(node_.body<CommitEntry>(again[1], 1).front().checksum, first.value);
  node_.answer_commit(again[1]);
  ASSERT_EQ(session_.next(&answer_), Session::Next::kAnswer);
  EXPECT_EQ(answer_.cookie, 11U);
}

TEST_F(SessionResumeTest, Planted_bug_forgets_a_posted_commit) {
  g_planted_bug = PlantedBug::kPostedCommitForgotten;
  commit(hold_put(), 1);
  die_and_reset();
  come_back();
  EXPECT_EQ(node_.unread(), 0U);
}

TEST_F(SessionResumeTest, Commit_made_while_no_server_lives_is_posted_once_after_the_return) {
  const PutId while_lost = hold_put();
  const PutId while_reset = hold_put();
  session_.lost();
  commit(while_lost, 1);
  EXPECT_EQ(node_.unread(), 0U);
  const ResumeSnapshot snapshot = session_.reset();
  EXPECT_EQ(snapshot.held.size(), 2U);
  commit(while_reset, 2);
  come_back();
  EXPECT_EQ(node_.take_all().size(), 2U);
}

TEST_F(SessionResumeTest, Abort_after_the_snapshot_is_posted_after_the_return) {
  const PutId put = hold_put();
  die_and_reset();
  EXPECT_TRUE(session_.abort(put));
  come_back();
  const std::vector<segment::RingMessage> all = node_.take_all();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].code, static_cast<std::uint32_t>(RequestCode::kPutAbort));
}

TEST_F(SessionResumeTest, Abort_before_the_snapshot_is_said_by_the_snapshot) {
  const PutId put = hold_put();
  session_.lost();
  EXPECT_TRUE(session_.abort(put));
  EXPECT_TRUE(session_.reset().held.empty());
  come_back();
  EXPECT_EQ(node_.unread(), 0U);
}

TEST_F(SessionResumeTest, Arena_stays_taken_until_the_reset_is_acknowledged) {
  post_put();
  EXPECT_GT(session_.arena_used(), 0U);
  die_and_reset();
  const std::uint64_t used = session_.arena_used();
  EXPECT_GT(used, 0U);
  const ResumeSnapshot second = session_.reset();  // that server died as well
  EXPECT_EQ(session_.arena_used(), used);
  EXPECT_EQ(second.ring_generation, 2U);
  come_back();
  EXPECT_EQ(session_.arena_used(), 0U);
}

TEST_F(SessionResumeTest, Nothing_is_posted_while_no_server_serves) {
  session_.lost();
  EXPECT_EQ(post_put().result, Post::kNotAttached);
  session_.reset();
  EXPECT_EQ(session_.ping(1).result, Post::kNotAttached);
  session_.pump();
  EXPECT_EQ(node_.unread(), 0U);
}

TEST_F(SessionResumeTest, Detach_survives_a_restart) {
  session_.detach(5);
  session_.pump();
  node_.take();
  const ResumeSnapshot snapshot = die_and_reset();
  EXPECT_TRUE(snapshot.lost.empty());
  come_back();
  node_.answer_plain(node_.take());
  ASSERT_EQ(session_.next(&answer_), Session::Next::kAnswer);
  EXPECT_EQ(answer_.cookie, 5U);
}

TEST_F(SessionResumeTest, Give_up_returns_everyone_who_waits_once) {
  const PutId open = hold_put();
  commit(hold_put(), 31);
  post_put(32);
  session_.lost();
  const std::vector<Lost> lost = session_.give_up();
  std::vector<std::uint64_t> cookies;
  for (const Lost& item : lost) cookies.push_back(item.cookie);
  std::sort(cookies.begin(), cookies.end());
  EXPECT_EQ(cookies, (std::vector<std::uint64_t>{31, 32}));
  EXPECT_FALSE(session_.holds(open));
  EXPECT_EQ(session_.state(), Session::State::kOver);
  EXPECT_TRUE(session_.give_up().empty());
}

TEST_F(SessionResumeTest, Posted_commit_is_not_given_up_twice) {
  const PutId put = hold_put();
  commit(put, 8);
  const std::vector<Lost> lost = session_.give_up();
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].code, RequestCode::kPutCommit);
}

}  // namespace
}  // namespace orlop::protocol
