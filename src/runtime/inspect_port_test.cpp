// SPDX-License-Identifier: Apache-2.0
#include "runtime/inspect_port.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "platform/clock.h"

namespace orlop::runtime {
namespace {

constexpr MonoNs kLong = 60 * kNsPerSecond;

bool rung(const EventFd& bell, MonoNs within = kLong) {
  return bell.wait(monotonic_ns() + within).value_or(false);
}
std::uint32_t client_of(const protocol::InspectQuestion& question) {
  return std::get<protocol::question::Client>(question).client.value;
}
protocol::InspectQuestion about(std::uint32_t client) {
  return protocol::question::Client{ClientId{client}};
}
protocol::InspectAnswer answer_for(const protocol::InspectQuestion& question) {
  protocol::ClientFacts facts;
  facts.held.pages = client_of(question);
  return facts;
}

// Sleeps on the bell and serves, as the server's thread does.
class Server {
 public:
  explicit Server(const EventFd& bell, InspectPort& port) : bell_(bell), port_(port) {
    thread_ = std::thread([this] {
      while (!stop_.load()) {
        if (!rung(bell_, 10 * kNsPerMs)) continue;
        bell_.drain();
        port_.serve(answer_for);
      }
    });
  }
  ~Server() {
    stop_.store(true);
    thread_.join();
  }

 private:
  const EventFd& bell_;
  InspectPort& port_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

struct Port {
  EventFd bell = *EventFd::create();
  InspectPort port{bell};
};

TEST(InspectPort, Everybody_gets_the_answer_to_his_own_question) {
  Port p;
  const Server server(p.bell, p.port);
  std::vector<std::thread> askers;
  std::atomic<int> wrong{0};
  for (std::uint32_t asker = 1; asker <= 4; ++asker) {
    askers.emplace_back([&, asker] {
      for (std::uint32_t i = 0; i < 200; ++i) {
        const auto answer = p.port.ask(about(asker * 1'000 + i), kLong);
        if (!answer || std::get<protocol::ClientFacts>(*answer).held.pages != asker * 1'000 + i)
          ++wrong;
      }
    });
  }
  for (std::thread& thread : askers) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(InspectPort, An_error_of_the_machine_comes_back_as_one) {
  Port p;
  std::thread server([&] {
    EXPECT_TRUE(rung(p.bell));
    p.port.serve([](const auto&) {
      return protocol::InspectAnswer(Error{ErrorCode::kInvalidArgument, "no such client"});
    });
  });
  const auto answer = p.port.ask(about(1), kLong);
  server.join();
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(answer.error().message, "no such client");
}

TEST(InspectPort, A_stuck_server_is_a_deadline_and_its_question_is_forgotten) {
  Port p;
  EXPECT_EQ(p.port.ask(about(1), 1).error().code, ErrorCode::kDeadline);
  unsigned asked = 0;
  p.port.serve([&](const auto& question) {
    ++asked;
    return answer_for(question);
  });
  EXPECT_EQ(asked, 0u);
}

TEST(InspectPort, A_round_answers_a_few_and_rings_for_the_next) {
  Port p;
  std::vector<std::thread> askers;
  std::atomic<unsigned> got{0};
  for (std::uint32_t i = 0; i < kMaxQuestions; ++i) {
    askers.emplace_back([&, i] {
      auto answer = p.port.ask(about(i), kLong);
      // The probe below took the last place for a moment.
      while (!answer && answer.error().code == ErrorCode::kLimit)
        answer = p.port.ask(about(i), kLong);
      got += answer.has_value() ? 1 : 0;
    });
  }
  // Full when a further question is refused.
  while (true) {
    const auto more = p.port.ask(about(99), 1);
    if (!more && more.error().code == ErrorCode::kLimit) break;
  }
  unsigned rounds = 0, asked = 0;
  while (asked < kMaxQuestions) {
    ASSERT_TRUE(rung(p.bell));
    p.bell.drain();
    const unsigned before = asked;
    p.port.serve([&](const auto& question) {
      ++asked;
      return answer_for(question);
    });
    EXPECT_LE(asked - before, kQuestionsPerRound);
    ++rounds;
  }
  for (std::thread& thread : askers) thread.join();
  EXPECT_EQ(got.load(), kMaxQuestions);
  EXPECT_GE(rounds, kMaxQuestions / kQuestionsPerRound);
}

TEST(InspectPort, A_whole_answer_is_asked_for_part_by_part) {
  Port p;
  std::atomic<unsigned> asked{0};
  std::atomic<bool> stop{false};
  std::thread server([&] {
    while (!stop.load()) {
      if (!rung(p.bell, 10 * kNsPerMs)) continue;
      p.bell.drain();
      p.port.serve([&](const protocol::InspectQuestion& question) -> protocol::InspectAnswer {
        ++asked;
        const auto* rest = std::get_if<protocol::question::Held>(&question);
        const std::uint32_t chunk = rest == nullptr ? 0 : rest->chunk;
        protocol::Held part;
        part.pages = 10;
        if (chunk < 5) part.next = protocol::question::Held{ClientId{1}, chunk + 1};
        if (rest != nullptr) return part;
        protocol::ClientFacts facts;
        facts.held = part;
        return facts;
      });
    }
  });
  const auto whole = ask_whole(p.port, about(1), kLong);
  ASSERT_TRUE(whole.has_value());
  const auto& held = std::get<protocol::ClientFacts>(*whole).held;
  EXPECT_EQ(held.pages, 60u);
  EXPECT_FALSE(held.next.has_value());
  EXPECT_EQ(asked.load(), 6u);
  stop.store(true);
  server.join();
}

TEST(InspectPort, A_whole_answer_that_never_ends_is_a_deadline) {
  Port p;
  std::atomic<bool> stop{false};
  std::thread server([&] {
    while (!stop.load()) {
      if (!rung(p.bell, 10 * kNsPerMs)) continue;
      p.bell.drain();
      p.port.serve([&](const protocol::InspectQuestion& question) -> protocol::InspectAnswer {
        protocol::Holders part;
        part.next = protocol::question::Holders{};
        if (std::holds_alternative<protocol::question::Holders>(question)) return part;
        protocol::KeyFacts facts;
        facts.holders = part;
        return facts;
      });
    }
  });
  const auto whole = ask_whole(p.port, protocol::question::Key{}, 50 * kNsPerMs);
  ASSERT_FALSE(whole.has_value());
  EXPECT_EQ(whole.error().code, ErrorCode::kDeadline);
  stop.store(true);
  server.join();
}

TEST(InspectPort, Its_end_lets_those_inside_go_first) {
  auto bell = *EventFd::create();
  auto port = std::make_unique<InspectPort>(bell);
  std::vector<std::thread> askers;
  for (std::uint32_t i = 0; i < kMaxQuestions; ++i) {
    askers.emplace_back([&, i, &port = *port] {
      auto answer = port.ask(about(i), kLong);
      // The probe below took the last place for a moment.
      while (answer.error().code == ErrorCode::kLimit) answer = port.ask(about(i), kLong);
      EXPECT_EQ(answer.error().code, ErrorCode::kClosed);
    });
  }
  // Full when a further question is refused: then all are inside.
  while (port->ask(about(99), 1).error().code != ErrorCode::kLimit) std::this_thread::yield();
  port.reset();
  for (std::thread& asker : askers) asker.join();
}

TEST(InspectPort, Close_ends_those_who_wait_and_those_who_come) {
  Port p;
  std::thread asker(
      [&] { EXPECT_EQ(p.port.ask(about(1), kLong).error().code, ErrorCode::kClosed); });
  ASSERT_TRUE(rung(p.bell));
  p.port.close();
  asker.join();
  EXPECT_EQ(p.port.ask(about(1), kLong).error().code, ErrorCode::kClosed);
}

}  // namespace
}  // namespace orlop::runtime
