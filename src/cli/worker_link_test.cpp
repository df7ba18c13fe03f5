// SPDX-License-Identifier: Apache-2.0
#include "cli/worker_link.h"

#include <gtest/gtest.h>

#include "platform/clock.h"

namespace orlop::cli {
namespace {

class Worker_link : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pair = make_socket_pair();
    ASSERT_TRUE(pair.has_value()) << pair.error().message;
    parent_ = WorkerLink(std::move(pair->first));
    worker_ = WorkerLink(std::move(pair->second));
  }
  static MonoNs soon() { return monotonic_ns() + 10 * kNsPerSecond; }
  WorkerLink parent_, worker_;
};

TEST_F(Worker_link, Bodies_arrive_as_sent) {
  TallyBody tally;
  tally.requests = 12;
  tally.put_ns.record(5000);
  ASSERT_TRUE(worker_.send(Word::kDone, tally, soon()).has_value());
  const auto message = parent_.receive(soon());
  ASSERT_TRUE(message.has_value() && message->has_value());
  EXPECT_EQ((*message)->word, Word::kDone);
  const auto body = (*message)->as<TallyBody>();
  ASSERT_TRUE(body.has_value());
  EXPECT_EQ(body->requests, 12u);
  EXPECT_EQ(body->put_ns.count(), 1u);
  EXPECT_FALSE((*message)->as<MarkedBody>().has_value());
}

TEST_F(Worker_link, Words_without_body_and_texts) {
  ASSERT_TRUE(parent_.send(Word::kGo, soon()).has_value());
  ASSERT_TRUE(parent_.send_text(Word::kFailed, "no luck", soon()).has_value());
  EXPECT_EQ((*worker_.receive(soon()))->word, Word::kGo);
  EXPECT_EQ((*worker_.receive(soon()))->text(), "no luck");
}

TEST_F(Worker_link, Looking_without_a_message_gives_none) {
  const auto message = parent_.receive(0);
  ASSERT_TRUE(message.has_value());
  EXPECT_FALSE(message->has_value());
}

TEST_F(Worker_link, End_of_the_other_side_is_closed) {
  worker_ = WorkerLink();
  const auto message = parent_.receive(soon());
  ASSERT_FALSE(message.has_value());
  EXPECT_EQ(message.error().code, ErrorCode::kClosed);
}

TEST_F(Worker_link, Unread_messages_end_in_a_deadline) {
  Result<void> sent;
  for (int i = 0; i < 10'000 && sent; ++i) {
    sent = worker_.send(Word::kDone, TallyBody{}, monotonic_ns());
  }
  ASSERT_FALSE(sent.has_value());
  EXPECT_EQ(sent.error().code, ErrorCode::kDeadline);
}

TEST(Tally, Sums_add_up) {
  TallyBody a, b;
  a.pages = 3;
  b.pages = 4;
  b.outcomes[1] = 2;
  b.get_ns.record(7);
  a.add(b);
  EXPECT_EQ(a.pages, 7u);
  EXPECT_EQ(a.outcomes[1], 2u);
  EXPECT_EQ(a.get_ns.count(), 1u);
}

}  // namespace
}  // namespace orlop::cli
