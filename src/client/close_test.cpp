// SPDX-License-Identifier: Apache-2.0
// close() while other threads copy, and on the library's own thread.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <latch>
#include <memory>
#include <optional>
#include <thread>

#include "client/access.h"
#include "client/client_fixture.h"
#include "client/copy_gate.h"
#include "client/limits.h"

namespace orlop::client::testing {
namespace {

using detail::ClientAccess;

const std::atomic<bool> kOpen{false};

class CloseTest : public ClientTest {
 protected:
  static TestNodeOptions one_may_have_all() {
    TestNodeOptions options;
    options.machine.prepared_cap_bytes = options.capacity;
    return options;
  }
  CloseTest() : ClientTest(one_may_have_all()), second(with_socket({})) {
    EXPECT_TRUE(second.wait_ready(kLong));
    auto opened = second.open_namespace(descriptor());
    EXPECT_TRUE(opened.has_value());
    theirs = *opened;
  }
  // From the first of it on, no call of the client begins anything new.
  bool close_has_begun() {
    return eventually([&] {
      const auto answer = client.exists(ns, Keys(1));
      return !answer && answer.error().code == ErrorCode::kClosed;
    });
  }
  // Puts of the second client that hold all the memory there is, written and not committed.
  std::vector<PutPlan> fill() {
    std::vector<PutPlan> plans;
    for (std::size_t i = 0; i < 10'000; ++i) {
      const Keys keys(1, "fill", i);
      auto plan = second.put_start(theirs, keys);
      EXPECT_TRUE(plan.has_value());
      if (plan->prepared() == 0) return plans;
      EXPECT_TRUE(plan->copy_in(0, page_of(keys[0])).has_value());
      plans.push_back(std::move(*plan));
    }
    ADD_FAILURE() << "the pool has no end";
    return plans;
  }

  Client second;
  Namespace theirs;
};

TEST_F(CloseTest, Close_underACopyIn_givesItsMemoryToNobodyBeforeItsEnd) {
  auto plan = client.put_start(ns, Keys(1));
  ASSERT_EQ(plan->prepared(), 1U);
  const std::span<std::byte> target = plan->memory(0);
  std::atomic<bool> closed{false};
  std::thread closer;
  std::vector<PutPlan> held;
  {
    const RunningCopy copy(ClientAccess::state(*plan)->gate, kOpen);
    closer = std::thread([&] {
      client.close();
      closed = true;
    });
    ASSERT_TRUE(close_has_begun());
    held = fill();
    EXPECT_FALSE(closed);
    std::memset(target.data(), 0xee, target.size());  // the copy's last bytes
  }
  closer.join();
  // Only now there is room for one more.
  EXPECT_TRUE(eventually([&] {
    auto more = second.put_start(theirs, Keys(1, "more"));
    return more->prepared() == 1;
  }));
  ASSERT_GT(held.size(), 100U);
  for (std::size_t i = 0; i < held.size(); ++i) {
    const std::vector<std::byte> wanted = page_of("fill" + std::to_string(i));
    EXPECT_TRUE(std::ranges::equal(held[i].memory(0), wanted)) << i;
  }
}

// A node that has the attach may have given the channel already: without a detach it could take it
// back only when this process ends.
TEST_F(CloseTest, Clients_closedWhileTheyAttach_leaveNoChannel) {
  const std::size_t before = node.channels_held();
  for (int round = 0; round < 200; ++round) {
    Client hasty(with_socket({.name = "hasty"}));
    // Each closes a little later in its attach than the one before.
    for (int i = 0; i < round * 2000; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  EXPECT_TRUE(eventually([&] { return node.channels_held() == before; })) << node.channels_held();
}

TEST_F(CloseTest, Close_underACopyOut_keepsItsPins) {
  put(Keys(2));
  ReadPlan plan = read(Keys(2));
  std::thread closer;
  {
    const RunningCopy copy(ClientAccess::state(plan)->gate, kOpen);
    closer = std::thread([&] { client.close(); });
    ASSERT_TRUE(close_has_begun());
    EXPECT_EQ(client.stats().pinned_bytes, 2U * kValueLen);
    EXPECT_EQ(plan.size(), 2U);
    // No new copy begins meanwhile.
    std::vector<std::byte> page(kValueLen);
    EXPECT_EQ(plan.copy_out(0, page).error().code, ErrorCode::kClosed);
    EXPECT_TRUE(plan.view(0).empty());
    EXPECT_EQ(plan.valid_len(), 2U);  // and it is no mismatch
  }
  closer.join();
  EXPECT_EQ(plan.size(), 0U);
}

TEST_F(CloseTest, Close_underRealCopies_leavesNoByteInAnothersPage) {
  constexpr std::uint32_t kLarge = 64 * 1024;
  auto in = second.open_namespace(descriptor(kLarge, "large"));
  ASSERT_TRUE(in.has_value());
  const std::vector<std::byte> foreign(kLarge, std::byte{0xee});
  std::size_t hits = 0;
  for (std::size_t round = 0; round < 15; ++round) {
    Client writer(with_socket({}));
    ASSERT_TRUE(writer.wait_ready(kLong));
    auto mine = writer.open_namespace(descriptor(kLarge, "large"));
    auto plan = writer.put_start(*mine, Keys(4, "w", round * 4));
    ASSERT_EQ(plan->prepared(), 4U);
    std::latch copying(1);
    ErrorCode end{};
    std::thread copier([&] {
      for (std::size_t i = 0;; ++i) {
        const auto copied = plan->copy_in(i % 4, foreign);
        if (!copied) {
          end = copied.error().code;
          return;
        }
        if (i == 8) copying.count_down();
      }
    });
    copying.wait();
    writer.close();
    const Keys keys(16, "s", round * 16);
    put_with(second, *in, keys);
    copier.join();
    EXPECT_EQ(end, ErrorCode::kClosed);
    auto handle = second.get_start(*in, keys);
    auto views = second.get_transfer(*handle);
    hits += views->size();  // a page that found no memory in time is a miss
    for (std::size_t i = 0; i < views->size(); ++i) EXPECT_TRUE(holds_page(*views, i, keys[i]));
  }
  EXPECT_GT(hits, 0U);
  EXPECT_EQ(second.stats().mismatches, 0U);
}

TEST_F(CloseTest, Close_ofAPutWhoseChecksumsAreMissing_answersClosedAtCommit) {
  auto plan = client.put_start(ns, Keys(1));
  client.close();
  EXPECT_EQ(client.put_commit(*plan).error().code, ErrorCode::kClosed);
}

TEST_F(CloseTest, EndOfAPlan_underACopyOfAnotherThread_isRefusedAndChangesNothing) {
  auto writing = client.put_start(ns, Keys(1, "w"));
  put(Keys(1));
  ReadPlan reading = read(Keys(1));
  {
    const RunningCopy in(ClientAccess::state(*writing)->gate, kOpen);
    const RunningCopy out(ClientAccess::state(reading)->gate, kOpen);
    EXPECT_EQ(client.put_commit(*writing).error().code, ErrorCode::kWrongState);
    EXPECT_EQ(client.put_abort(*writing).error().code, ErrorCode::kWrongState);
    EXPECT_EQ(client.release_views(reading).error().code, ErrorCode::kWrongState);
  }
  EXPECT_TRUE(writing->copy_in(0, page_of("w0")).has_value());
  EXPECT_EQ(client.put_commit(*writing)->wait(kLong)->front(), Outcome::kStored);
  EXPECT_TRUE(holds_page(reading, 0, "k0"));
  EXPECT_TRUE(client.release_views(reading).has_value());
}

// A client that its own thread ends. What on_ready holds is gone when the whole core is gone.
class OwnThread {
 public:
  // at: of how many calls of on_ready the last one runs `then`.
  OwnThread(ClientOptions options, bool at, std::function<void(std::optional<Client>&)> then) {
    auto token = std::make_shared<int>();
    alive_ = token;
    options.on_ready = [this, at, then = std::move(then), token](bool ready) {
      made_.wait();
      if (ready == at) then(client_);
    };
    token.reset();
    client_.emplace(std::move(options));
    made_.count_down();
  }
  std::optional<Client>& client() { return client_; }
  bool gone() const {
    return eventually([this] { return alive_.expired(); });
  }

 private:
  std::latch made_{1};
  std::weak_ptr<int> alive_;
  std::optional<Client> client_;
};

TEST_F(CloseTest, LastReference_droppedInsideOnReady_endsTheClient) {
  OwnThread own(with_socket({}), true, [](std::optional<Client>& mine) { mine.reset(); });
  EXPECT_TRUE(own.gone());
  EXPECT_TRUE(eventually([&] { return node.channels_held() == 2; }));
}

TEST_F(CloseTest, LastReference_droppedWhenTheServerGoes_endsTheClient) {
  OwnThread own(with_socket({}), false, [](std::optional<Client>& mine) { mine.reset(); });
  EXPECT_TRUE(eventually([&] { return node.channels_held() == 3; }));
  node.restart_server();
  EXPECT_TRUE(own.gone());
  EXPECT_TRUE(client.wait_ready(kLong));
}

TEST_F(CloseTest, Close_insideOnReady_isWaitedForByTheNext) {
  OwnThread own(with_socket({}), true, [](std::optional<Client>& mine) { mine->close(); });
  ASSERT_TRUE(eventually([&] {
    const auto answered = own.client()->ping();
    return !answered && answered.error().code == ErrorCode::kClosed;
  }));
  own.client()->close();
  EXPECT_FALSE(own.client()->ready());
  EXPECT_EQ(own.client()->segment_id(), 0U);
  own.client().reset();
  EXPECT_TRUE(own.gone());
}

// Each would wait for the other's thread if a close inside on_ready waited for anybody.
TEST_F(CloseTest, TwoClients_thatCloseEachOtherInsideOnReady_bothEnd) {
  std::latch both_inside{2};
  OwnThread* other_of_one = nullptr;
  OwnThread* other_of_two = nullptr;
  std::latch made{1}, both_closed{2};
  const auto close_other = [&](OwnThread*& other) {
    return [&](std::optional<Client>&) {
      made.wait();
      both_inside.arrive_and_wait();
      other->client()->close();
      both_closed.count_down();
    };
  };
  OwnThread one(with_socket({}), true, close_other(other_of_one));
  OwnThread two(with_socket({}), true, close_other(other_of_two));
  other_of_one = &two;
  other_of_two = &one;
  made.count_down();
  both_closed.wait();  // before the objects go
  for (OwnThread* closed : {&one, &two}) {
    EXPECT_TRUE(eventually([&] {
      const auto answered = closed->client()->ping();
      return !answered && answered.error().code == ErrorCode::kClosed;
    }));
    closed->client().reset();
    EXPECT_TRUE(closed->gone());
  }
  EXPECT_TRUE(eventually([&] { return node.channels_held() == 2; })) << "those of the fixture";
}

// Whoever comes first, the client says goodbye to its node and goes.
TEST_F(CloseTest, Client_closedInsideAnOnReadyAndByAnotherThread_leavesItsNode) {
  for (std::size_t round = 0; round < 20; ++round) {
    OwnThread closed(with_socket({}), true, [](std::optional<Client>&) {});
    ASSERT_TRUE(closed.client()->wait_ready(kLong));
    OwnThread closing(with_socket({}), true,
                      [&](std::optional<Client>&) { closed.client()->close(); });
    closed.client()->close();
    ASSERT_TRUE(closing.client()->wait_ready(kLong));
    closing.client().reset();  // its thread has ended, and with it its close()
    closed.client().reset();
    EXPECT_TRUE(closed.gone()) << round;
  }
  EXPECT_TRUE(eventually([&] { return node.channels_held() == 2; })) << "those of the fixture";
}

TEST_F(CloseTest, Plan_thatOutlivesAClientEndedInsideOnReady_answersClosed) {
  std::optional<PutPlan> plan;
  std::optional<Namespace> place;
  OwnThread own(with_socket({}), false, [&](std::optional<Client>& mine) { mine.reset(); });
  ASSERT_TRUE(own.client()->wait_ready(kLong));
  place = own.client()->open_namespace(descriptor()).value();
  plan.emplace(std::move(*own.client()->put_start(*place, Keys(1))));
  node.restart_server();
  EXPECT_TRUE(eventually([&] { return plan->size() == 0; }));
  EXPECT_EQ(plan->copy_in(0, page_of("k0")).error().code, ErrorCode::kClosed);
  plan.reset();
  EXPECT_TRUE(own.gone());
}

class LongestTimesTest : public ClientTest {
 protected:
  LongestTimesTest()
      : ClientTest({}, {.call_budget = Milliseconds::max(), .handle_ttl = Milliseconds::max()}) {}
};

TEST_F(LongestTimesTest, Calls_areLongAndNotOver) {
  EXPECT_TRUE(client.wait_ready(Milliseconds::max()));
  EXPECT_EQ(put(Keys(1), {.deadline = Milliseconds::max()}).front(), Outcome::kStored);
  auto plan = client.put_start(ns, Keys(1, "f"), {.deadline = Milliseconds::max()});
  ASSERT_EQ(plan->prepared(), 1U);
  const auto future = client.put_commit(*plan);
  EXPECT_EQ(future->wait(Milliseconds::max())->front(), Outcome::kStored);
  EXPECT_TRUE(client.ping());
  auto handle = client.get_start(ns, Keys(1));
  // Each commit wakes the thread that looks for handles to expire.
  for (std::size_t i = 0; i < 50; ++i) put(Keys(1, "p", i));
  EXPECT_TRUE(client.get_transfer(*handle).has_value());
}

TEST(DurationOfTest, AnyTime_canBeAddedToTheClock) {
  EXPECT_EQ(duration_of(Milliseconds{7}), 7 * kNsPerMs);
  EXPECT_EQ(duration_of(Milliseconds::min()), 0U);
  EXPECT_EQ(duration_of(Milliseconds{-1}), 0U);
  EXPECT_EQ(duration_of(Milliseconds::max()), 365ULL * 24 * 3'600 * kNsPerSecond);
  EXPECT_GT(monotonic_ns() + duration_of(Milliseconds::max()), monotonic_ns());
}

}  // namespace
}  // namespace orlop::client::testing
