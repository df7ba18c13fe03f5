// SPDX-License-Identifier: Apache-2.0
// Rings and doorbells: no torn message, no lost wake-up.
#include <gtest/gtest.h>

#include <optional>

#include "explorer.h"
#include "page_world.h"
#include "protocol/messages.h"
#include "protocol/session/session.h"
#include "segment/ring.h"

namespace orlop::interleaving {
namespace {

using segment::RingConsumer;
using segment::RingMessage;
using segment::RingProducer;

RingMessage message_number(std::uint32_t n) {
  RingMessage message;
  message.code = n;
  message.request_id = n;
  for (std::uint64_t& arg : message.args) arg = n;
  return message;
}

bool is_number(const RingMessage& message, std::uint32_t n) {
  bool whole = message.code == n && message.request_id == n;
  for (const std::uint64_t arg : message.args) whole = whole && arg == n;
  return whole;
}

// A ring with a few messages, or full up to one cell; the counters wrap on the way. The producer
// may die anywhere: what it has published stays, whole.
class Ring : public Program {
 public:
  struct Shape {
    std::uint32_t waiting = segment::kRingCells - 1;
    bool producer_may_die = false;
  };
  explicit Ring(const Shape& shape) : shape_(shape), first_(0U - shape.waiting - 1) {
    header().request_head.store(first_);
    header().request_tail.store(first_ + shape.waiting);
  }
  unsigned fibers() const override { return 2; }
  bool may_be_abandoned(unsigned fiber) const override {
    return shape_.producer_may_die && fiber == 0;
  }
  // Messages are plain memory: a branch behind each store of a counter shows them half done.
  bool branches_after_stores() const override { return true; }
  std::string name_of(const void* address) const override { return channel_.name_of(address); }

  void reset() override {
    for (std::uint32_t i = 0; i < segment::kRingCells; ++i)
      cell(first_ + i) = message_number(i < shape_.waiting ? first_ + i : kOfLastRound);
    producer_.emplace(channel_.view().request_cells(), &header().request_tail,
                      &header().request_head);
    consumer_.emplace(channel_.view().request_cells(), &header().request_tail,
                      &header().request_head);
    sent_ = first_ + shape_.waiting;
    received_ = first_;
  }
  void run(unsigned fiber) override { fiber == 0 ? produce() : consume(); }
  void verify() override {
    for (std::uint32_t before = received_ - 1; received_ != before;) {
      before = received_;
      consume();
    }
    if (!somebody_was_abandoned()) return require(received_ == sent_, "a message is lost");
    // Its tail may lack the last messages, or count one that it did not live to count itself.
    require(received_ - first_ <= sent_ - first_ + 1, "a message nobody sent");
  }

 private:
  static constexpr std::uint32_t kOfLastRound = 1'000'000;  // what free cells hold

  segment::ChannelHeader& header() { return channel_.view().header(); }
  RingMessage& cell(std::uint32_t at) {
    return channel_.view().request_cells()[at % segment::kRingCells];
  }
  void produce() {
    for (int tries = 0; tries < 4; ++tries) {
      if (producer_->push(message_number(sent_))) ++sent_;
    }
  }
  void consume() {
    RingMessage message;
    for (int pops = 0; pops < 3; ++pops) {
      const auto popped = consumer_->pop(&message);
      require(popped != RingConsumer::Pop::kMalformed, "a counter claims too much");
      if (popped == RingConsumer::Pop::kEmpty) return;
      require(is_number(message, received_), "a torn or foreign message");
      ++received_;
    }
  }

 protected:
  ClientChannel channel_;
  std::optional<RingProducer> producer_;
  std::optional<RingConsumer> consumer_;
  std::uint32_t sent_ = 0, received_ = 0;
  Shape shape_;
  std::uint32_t first_;
};

// ---- doorbells ----

// A client (the real Session) sends pings and waits for the answers; a node serves and sleeps.
class Doorbells : public Program {
 public:
  // false: the node's half, which is written again here, leaves out its fence.
  explicit Doorbells(bool node_fences = true) : node_fences_(node_fences), world_(1) {}
  unsigned fibers() const override { return 2; }
  std::string name_of(const void* address) const override {
    if (address == &node_bell_) return "node's bell";
    if (address == &client_bell_) return "client's bell";
    if (address == &world_.area().header().node_sleeping) return "node sleeping";
    return channel_.name_of(address);
  }

  void reset() override {
    session_.emplace(world_.area(), channel_.view(), ClientId{1});
    segment::ChannelHeader& header = channel_.view().header();
    requests_ =
        RingConsumer(channel_.view().request_cells(), &header.request_tail, &header.request_head);
    answers_ = RingProducer(channel_.view().response_cells(), &header.response_tail,
                            &header.response_head);
  }
  void run(unsigned fiber) override { fiber == 0 ? run_client() : run_node(); }

 private:
  static constexpr int kPings = 2;

  // As the library does it (client/core_calls.cpp).
  void run_client() {
    for (int ping = 1; ping <= kPings; ++ping) {
      session_->ping(static_cast<std::uint64_t>(ping));
      session_->pump();
      if (session_->must_ring()) node_bell_.fetch_add(1);
      protocol::Answer answer;
      protocol::Session::Next next;
      while ((next = session_->next(&answer)) == protocol::Session::Next::kNone) {
        if (session_->prepare_sleep()) sleep_on(client_bell_);
        session_->woke_up();
      }
      require(next == protocol::Session::Next::kAnswer, "the answer is broken");
    }
  }
  // ServerLoop: serve what is there, answer, ring; then sleep_or_spin.
  void run_node() {
    for (int served = 0; served < kPings;) {
      RingMessage request;
      if (requests_.pop(&request) != RingConsumer::Pop::kMessage) {
        node_sleeps();
        continue;
      }
      ++served;
      RingMessage answer = request;
      answer.body_bytes = 0;
      answer.args[protocol::kStatusArg] = protocol::kStatusOk;
      require(answers_.push(answer), "no room for an answer");
      segment::full_fence();  // partner: Session::prepare_sleep
      if (channel_.view().header().client_sleeping.load(std::memory_order_relaxed) != 0)
        client_bell_.fetch_add(1);
    }
  }
  // ServerLoop::sleep_or_spin
  void node_sleeps() {
    auto& sleeping = world_.area().header().node_sleeping;
    sleeping.store(1, std::memory_order_relaxed);
    if (node_fences_) segment::full_fence();
    if (requests_.empty()) sleep_on(node_bell_);
    sleeping.store(0, std::memory_order_relaxed);
  }

  // An eventfd: rings add up until they are drained.
  static void sleep_on(segment::Atomic<std::uint32_t>& bell) {
    sleep_until([&bell] { return bell.load() != 0; });
    bell.exchange(0);
  }

  bool node_fences_;
  PageWorld world_;
  ClientChannel channel_;
  segment::Atomic<std::uint32_t> node_bell_{0}, client_bell_{0};
  std::optional<protocol::Session> session_;
  RingConsumer requests_;
  RingProducer answers_;
};

TEST(RingExplorer, Full_ring_tears_and_loses_nothing) {
  Ring program({});
  expect_clean("ring: full", program, {.budget = 5, .at_least = 42'000});
}

TEST(RingExplorer, Producer_abandoned_anywhere_leaves_whole_messages) {
  Ring program({.waiting = 1, .producer_may_die = true});
  expect_clean("ring: producer dies", program, {.budget = 4, .at_least = 26'000});
}

TEST(RingExplorer, Cell_freed_before_the_copy_is_found) {
  Ring program({});
  expect_found("ring: freed before the copy", program, PlantedBug::kRingCellFreedBeforeCopy);
}

TEST(RingExplorer, Tail_before_the_message_is_found) {
  Ring program({.waiting = 1});
  expect_found("ring: tail before the message", program, PlantedBug::kRingTailBeforeMessage);
}

TEST(RingExplorer, Doorbells_lose_no_wake_up) {
  Doorbells program;
  expect_clean("doorbells", program, {.at_least = 6'500});
}

TEST(RingExplorer, Waker_without_fence_is_found) {
  Doorbells program;
  expect_found("doorbells: waker without fence", program, PlantedBug::kWakerWithoutFence);
}

TEST(RingExplorer, Sleeper_that_looks_first_is_found) {
  Doorbells program;
  expect_found("doorbells: sleeper looks first", program, PlantedBug::kSleeperLooksFirst);
}

TEST(RingExplorer, Node_without_fence_is_found) {
  Doorbells program(false);
  expect_broken("doorbells: node without fence", program);
}

}  // namespace
}  // namespace orlop::interleaving
