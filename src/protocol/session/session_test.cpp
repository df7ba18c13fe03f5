// SPDX-License-Identifier: Apache-2.0
#include "protocol/session/session.h"

#include <gtest/gtest.h>

#include "base/planted.h"
#include "protocol/session/fake_node.h"

namespace orlop::protocol {
namespace {

using testing::FakeNode;
using testing::numbered_keys;

class SessionTest : public ::testing::Test {
 protected:
  ~SessionTest() override { g_planted_bug = PlantedBug::kNone; }

  Posted post_put(std::size_t keys, std::uint64_t cookie = 1, std::uint64_t first = 1) {
    const std::vector<KeyId> ids = numbered_keys(keys, first);
    return session_.put_start(
        {.row = NamespaceRow{3}, .value_len = 4096, .wait_us = 9, .keys = ids}, cookie);
  }
  // A put that is held, with `keys` slots.
  PutId hold_put(std::size_t keys = 1) {
    const Posted posted = post_put(keys);
    EXPECT_EQ(posted.result, Post::kPosted);
    node_.answer_put(node_.take(), std::vector<bool>(keys, true));
    EXPECT_EQ(session_.next(&answer_), Session::Next::kAnswer);
    return posted.put;
  }
  void commit(PutId put, std::uint64_t cookie = 2) {
    session_.commit(put, {{.slot = 100, .generation = 5, .checksum = 77}}, cookie);
    session_.pump();
  }

  FakeNode node_;
  Session session_ = node_.make_session();
  Answer answer_;
};

TEST_F(SessionTest, Put_start_travels_whole_and_its_answer_comes_back) {
  const std::vector<KeyId> ids = numbered_keys(3);
  const std::vector<std::uint32_t> groups = {2, 1};
  const KeyId parent{8, 9};
  const Posted posted = session_.put_start({NamespaceRow{3}, 4096, 500, ids, groups, parent}, 42);
  ASSERT_EQ(posted.result, Post::kPosted);
  EXPECT_EQ(owner_of(posted.put), ClientId{7});

  const segment::RingMessage message = node_.take();
  EXPECT_EQ(message.code, static_cast<std::uint32_t>(RequestCode::kPutStart));
  EXPECT_EQ(message.args[0], posted.put.value);
  EXPECT_EQ(message.args[1], 3 | std::uint64_t{3} << 32);
  EXPECT_EQ(message.args[2], 4096 | std::uint64_t{2} << 32);
  EXPECT_EQ(message.args[3], 500U);
  EXPECT_EQ(message.args[4], kHasParent);
  EXPECT_EQ(node_.body<KeyId>(message, 3), ids);
  EXPECT_EQ(node_.body<std::uint32_t>(message, 2, 48), groups);
  EXPECT_EQ(node_.body<KeyId>(message, 1, 56).front(), parent);

  node_.answer_put(message, {true, false, true});
  ASSERT_EQ(session_.next(&answer_), Session::Next::kAnswer);
  EXPECT_EQ(answer_.cookie, 42U);
  EXPECT_EQ(answer_.put, posted.put);
  EXPECT_EQ(answer_.grants[2].slot, 102U);
  EXPECT_EQ(answer_.outcomes[1], Outcome::kExists);
  EXPECT_TRUE(session_.holds(posted.put));
  EXPECT_EQ(session_.arena_used(), 0U);
  EXPECT_EQ(session_.unanswered(), 0U);
}

TEST_F(SessionTest, Put_without_memory_is_not_held) {
  const Posted posted = post_put(2);
  node_.answer_put(node_.take(), {false, false});
  ASSERT_EQ(session_.next(&answer_), Session::Next::kAnswer);
  EXPECT_FALSE(session_.holds(posted.put));
}

TEST_F(SessionTest, Error_answer_carries_its_text) {
  ASSERT_EQ(session_.open_namespace("descriptor", 5).result, Post::kPosted);
  const std::string_view text = "same digest, other descriptor";
  const segment::RingMessage message = node_.take();
  node_.answer(message, 10, std::as_bytes(std::span(text)),
               static_cast<std::uint64_t>(ErrorCode::kNamespaceConflict));
  ASSERT_EQ(session_.next(&answer_), Session::Next::kAnswer);
  EXPECT_EQ(answer_.status, static_cast<std::uint64_t>(ErrorCode::kNamespaceConflict));
  EXPECT_EQ(answer_.text, text);
}

TEST_F(SessionTest, Requests_without_answer_never_exceed_the_response_ring) {
  std::uint32_t posted = 0;
  while (session_.ping(1).result == Post::kPosted) ++posted;
  EXPECT_LE(posted, kMaxUnanswered);
  EXPECT_EQ(session_.ping(1).result, Post::kNoRoom);
  // The node takes all of them; still nothing is answered, so nothing more may be posted.
  const std::vector<segment::RingMessage> all = node_.take_all();
  EXPECT_EQ(session_.ping(1).result, Post::kNoRoom);
  for (const segment::RingMessage& message : all) node_.answer_plain(message);
  EXPECT_EQ(session_.ping(1).result, Post::kNoRoom);
  ASSERT_EQ(session_.next(&answer_), Session::Next::kAnswer);
  EXPECT_EQ(session_.ping(1).result, Post::kPosted);
}

TEST_F(SessionTest, Request_larger_than_the_arena_is_told_apart_from_a_full_one) {
  EXPECT_EQ(post_put(5'000).result, Post::kTooLarge);
  EXPECT_EQ(post_put(2'000).result, Post::kPosted);
  EXPECT_EQ(post_put(2'000).result, Post::kNoRoom);
}

TEST_F(SessionTest, Arena_of_an_abandoned_request_is_free_only_after_its_answer) {
  const Posted posted = post_put(2'000);
  const std::uint64_t used = session_.arena_used();
  EXPECT_TRUE(session_.abandon(posted.request));
  EXPECT_FALSE(session_.abandon(posted.request));
  EXPECT_EQ(session_.arena_used(), used);
  EXPECT_EQ(post_put(2'000).result, Post::kNoRoom);
  node_.answer_put(node_.take(), std::vector<bool>(2'000, false));
  EXPECT_EQ(session_.next(&answer_), Session::Next::kNone);
  EXPECT_EQ(session_.arena_used(), 0U);
}

TEST_F(SessionTest, Planted_bug_reuses_the_arena_at_the_deadline) {
  g_planted_bug = PlantedBug::kArenaReusedAtDeadline;
  const Posted posted = post_put(2'000);
  session_.abandon(posted.request);
  EXPECT_EQ(session_.arena_used(), 0U);
}

TEST_F(SessionTest, Late_answer_with_memory_is_aborted) {
  const Posted posted = post_put(2);
  session_.abandon(posted.request);
  node_.answer_put(node_.take(), {true, false});
  EXPECT_EQ(session_.next(&answer_), Session::Next::kNone);
  EXPECT_FALSE(session_.holds(posted.put));
  EXPECT_EQ(session_.aborted_late(), 1U);
  session_.pump();
  const segment::RingMessage message = node_.take();
  EXPECT_EQ(message.code, static_cast<std::uint32_t>(RequestCode::kPutAbort));
  EXPECT_EQ(message.args[0], posted.put.value);
  node_.answer_plain(message);
  EXPECT_EQ(session_.next(&answer_), Session::Next::kNone);
  EXPECT_EQ(session_.unanswered(), 0U);
}

TEST_F(SessionTest, Commit_is_kept_until_it_is_answered) {
  const PutId put = hold_put();
  ASSERT_TRUE(session_.can_commit(put));
  commit(put, 99);
  EXPECT_FALSE(session_.can_commit(put));
  EXPECT_FALSE(session_.abort(put));
  EXPECT_TRUE(session_.holds(put));
  const segment::RingMessage message = node_.take();
  EXPECT_EQ(message.args[0], put.value);
  EXPECT_EQ(node_.body<CommitEntry>(message, 1).front().checksum, 77U);
  node_.answer_commit(message);
  ASSERT_EQ(session_.next(&answer_), Session::Next::kAnswer);
  EXPECT_EQ(answer_.cookie, 99U);
  EXPECT_EQ(answer_.outcomes, std::vector<Outcome>{Outcome::kStored});
  EXPECT_FALSE(session_.holds(put));
}

TEST_F(SessionTest, Commit_without_anyone_waiting_is_consumed_silently) {
  const PutId put = hold_put();
  commit(put);
  session_.set_commit_cookie(put, 0);
  node_.answer_commit(node_.take());
  EXPECT_EQ(session_.next(&answer_), Session::Next::kNone);
  EXPECT_FALSE(session_.holds(put));
}

TEST_F(SessionTest, Private_queue_goes_before_new_requests) {
  const PutId put = hold_put();
  while (session_.ping(1).result == Post::kPosted) {
  }
  commit(put);  // no cell: waits in the queue
  EXPECT_EQ(session_.queued(), 1U);
  std::vector<segment::RingMessage> all = node_.take_all();
  node_.answer_plain(all.front());
  ASSERT_EQ(session_.next(&answer_), Session::Next::kAnswer);
  EXPECT_EQ(session_.ping(1).result, Post::kNoRoom);
  session_.pump();
  EXPECT_EQ(session_.queued(), 0U);
  EXPECT_EQ(node_.take().code, static_cast<std::uint32_t>(RequestCode::kPutCommit));
}

TEST_F(SessionTest, Abort_waits_for_registered_copies) {
  const PutId put = hold_put();
  ASSERT_TRUE(session_.register_copy(put));
  EXPECT_FALSE(session_.can_commit(put));
  EXPECT_TRUE(session_.abort(put));
  session_.pump();
  EXPECT_EQ(node_.unread(), 0U);
  EXPECT_TRUE(session_.holds(put));
  EXPECT_TRUE(session_.copy_done(put, true));
  session_.pump();
  EXPECT_FALSE(session_.holds(put));
  EXPECT_EQ(node_.take().code, static_cast<std::uint32_t>(RequestCode::kPutAbort));
}

TEST_F(SessionTest, Failed_copy_keeps_the_put_held) {
  const PutId put = hold_put();
  ASSERT_TRUE(session_.register_copy(put));
  EXPECT_TRUE(session_.copy_done(put, false));
  EXPECT_FALSE(session_.can_commit(put));
  EXPECT_TRUE(session_.abort(put));
  session_.pump();
  EXPECT_EQ(node_.unread(), 0U);
  EXPECT_TRUE(session_.holds(put));
}

TEST_F(SessionTest, Held_puts_are_limited_counting_those_in_flight) {
  for (std::uint32_t i = 0; i < kMaxHeldPuts; ++i) hold_put();
  EXPECT_EQ(session_.held_puts(), kMaxHeldPuts);
  EXPECT_EQ(post_put(1).result, Post::kTooManyPuts);
}

TEST_F(SessionTest, Reports_are_posted_once_and_limited) {
  for (std::size_t i = 0; i < kMaxQueuedReports; ++i)
    EXPECT_TRUE(session_.report(MismatchReport{}));
  EXPECT_FALSE(session_.report(MismatchReport{}));
  EXPECT_EQ(session_.reports_dropped(), 1U);
  session_.pump();
  EXPECT_EQ(session_.queued() + node_.unread(), kMaxQueuedReports);
}

TEST_F(SessionTest, Detach_is_the_last_request) {
  const PutId put = hold_put();
  commit(put);
  session_.detach(11);
  session_.pump();
  EXPECT_EQ(session_.ping(1).result, Post::kNotAttached);
  node_.answer_commit(node_.take());
  node_.answer_plain(node_.take());
  ASSERT_EQ(session_.next(&answer_), Session::Next::kAnswer);
  ASSERT_EQ(session_.next(&answer_), Session::Next::kAnswer);
  EXPECT_EQ(answer_.cookie, 11U);
  EXPECT_EQ(session_.state(), Session::State::kOver);
}

TEST_F(SessionTest, Nonsense_from_the_node_breaks_the_session) {
  ASSERT_EQ(session_.ping(1).result, Post::kPosted);
  segment::RingMessage message = node_.take();
  message.request_id += 1;
  node_.answer_plain(message);
  EXPECT_EQ(session_.next(&answer_), Session::Next::kBroken);
  EXPECT_EQ(session_.state(), Session::State::kLost);
}

// Found by tests/fuzz/session.cpp: it ended the client's process.
TEST_F(SessionTest, Node_that_denies_having_taken_requests_breaks_the_session) {
  node_.channel().header().request_head.store(77);
  EXPECT_EQ(post_put(1).result, Post::kNoRoom);
  EXPECT_EQ(session_.unanswered(), 0U);
  EXPECT_EQ(session_.next(&answer_), Session::Next::kBroken);
  EXPECT_EQ(session_.state(), Session::State::kLost);
  session_.reset();
  session_.resumed();
  EXPECT_EQ(post_put(1).result, Post::kPosted);
}

TEST_F(SessionTest, Queued_commit_waits_for_a_node_that_lies_about_its_ring) {
  const PutId put = hold_put();
  node_.channel().header().request_head.store(77);
  commit(put);
  EXPECT_EQ(session_.queued(), 1U);
  EXPECT_EQ(session_.next(&answer_), Session::Next::kBroken);
  session_.reset();
  session_.resumed();
  session_.pump();
  EXPECT_EQ(session_.queued(), 0U);
}

TEST_F(SessionTest, Answer_outside_of_its_region_breaks_the_session) {
  ASSERT_EQ(session_.ping(1).result, Post::kPosted);
  segment::RingMessage message = node_.take();
  message.body_bytes = 1 << 20;
  message.args[kStatusArg] = 1;
  segment::RingProducer producer(node_.channel().response_cells(),
                                 &node_.channel().header().response_tail,
                                 &node_.channel().header().response_head);
  ASSERT_TRUE(producer.push(message));
  EXPECT_EQ(session_.next(&answer_), Session::Next::kBroken);
}

TEST_F(SessionTest, Sleep_flag_is_set_only_when_nothing_waits) {
  EXPECT_TRUE(session_.prepare_sleep());
  EXPECT_EQ(node_.channel().header().client_sleeping.load(), 1U);
  session_.woke_up();
  EXPECT_EQ(node_.channel().header().client_sleeping.load(), 0U);
  ASSERT_EQ(session_.ping(1).result, Post::kPosted);
  node_.answer_plain(node_.take());
  EXPECT_FALSE(session_.prepare_sleep());
  EXPECT_EQ(node_.channel().header().client_sleeping.load(), 0U);
}

TEST_F(SessionTest, Must_ring_follows_the_nodes_sleep_flag) {
  EXPECT_FALSE(session_.must_ring());
  node_.area().header().node_sleeping.store(1);
  EXPECT_TRUE(session_.must_ring());
}

}  // namespace
}  // namespace orlop::protocol
