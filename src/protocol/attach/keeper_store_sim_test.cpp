// SPDX-License-Identifier: Apache-2.0
// Keepers that are killed between any two of their acts, under a service manager that is slow: the
// next keeper takes over every client that has memory, and no id comes twice. The planted bug that
// answers before the store has the client is found.
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/planted.h"
#include "base/rng.h"
#include "base/sometimes.h"
#include "protocol/attach/keeper_machine.h"

namespace orlop::protocol {
namespace {

namespace fx = keeper_effect;

class Node {
 public:
  explicit Node(std::uint64_t seed) : rng_(seed) {}

  // The first broken rule, if any.
  std::optional<std::string> run() {
    first_keeper();
    for (int step = 0; step < 300 && !broken_; ++step) {
      if (rng_.uniform(12) == 0) {
        kill_keeper();
        next_keeper();
      } else if (rng_.uniform(3) == 0) {
        manager_reads();
      } else if (!acts_.empty()) {
        act();
      } else {
        something_happens();
      }
    }
    return broken_;
  }

 private:
  // To the service manager, in order.
  struct Message {
    std::vector<std::string> store;  // names
    std::optional<std::string> remove;
    std::optional<ClientId> barrier_of_client;
    std::uint32_t barrier_of_server = 0;
  };

  void first_keeper() {
    ledger_ = std::make_unique<Ledger>();
    for (const auto name : {kStoredLedger, kStoredControl, kStoredValue})
      send({{std::string(name)}, {}, {}, 0});
    keeper_.emplace(SegmentId{++segment_}, true);
    start_server();
  }
  void start_server() {
    server_ = {};
    perform(keeper_->server_started());
  }

  void something_happens() {
    if (!server_.has_memory) return;
    if (!server_.serving) {
      server_.serving = true;
      return perform(keeper_->serving());
    }
    const auto dice = rng_.uniform(10);
    if (dice < 6) return perform(keeper_->hold({++nonce_, nonce_, 1, {}, "w"}));
    if (dice < 9 && !have_memory_.empty()) {
      const ClientId client = *have_memory_.begin();
      have_memory_.erase(client);  // reclaimed: its process is dead
      return perform(keeper_->drop(client));
    }
    perform(keeper_->server_ended());
    if (acts_.empty())
      start_server();
    else
      start_after_acts_ = true;
  }

  // Effects wait: a kill may come between any two, and between the parts of one.
  void perform(const KeeperEffects& effects) {
    acts_.insert(acts_.end(), effects.begin(), effects.end());
  }

  void act() {
    const KeeperEffect effect = acts_.front();
    acts_.pop_front();
    if (const auto* one = std::get_if<fx::Store>(&effect)) {
      const auto names = stored_names_of(one->client);
      const auto cut = rng_.uniform(40);  // killed between two of the six
      for (std::size_t i = 0; i < names.size(); ++i) {
        if (i == cut) return kill_and_follow();
        send({{names[i]}, {}, {}, 0});
      }
      send({{}, {}, one->client, 0});
    }
    if (const auto* one = std::get_if<fx::StoreServer>(&effect)) {
      send({{stored_name_of_server(one->server)}, {}, {}, 0});
      send({{}, {}, {}, one->server});
    }
    if (std::holds_alternative<fx::WriteLedger>(effect))
      LedgerPages(ledger_->bytes).write(keeper_->ledger());
    if (std::holds_alternative<fx::HandOver>(effect)) server_.has_memory = true;
    if (const auto* one = std::get_if<fx::Answer>(&effect)) answered(one->frame.client);
    if (const auto* one = std::get_if<fx::LetGo>(&effect)) {
      for (const std::string& name : stored_names_of(one->client)) send({{}, name, {}, 0});
    }
    if (const auto* one = std::get_if<fx::ForgetServer>(&effect))
      send({{}, stored_name_of_server(one->server), {}, 0});
    if (acts_.empty() && std::exchange(start_after_acts_, false)) start_server();
  }

  void answered(ClientId client) {
    if (!client) return;
    if (!ever_answered_.insert({segment_, client}).second) break_rule("a client id came twice");
    have_memory_.insert(client);
  }

  void send(Message message) { sent_.push_back(std::move(message)); }

  void manager_reads() {
    if (sent_.empty()) return;
    Message message = std::move(sent_.front());
    sent_.pop_front();
    take(message);
    if (message.barrier_of_client) perform(keeper_->stored(*message.barrier_of_client));
    if (message.barrier_of_server != 0) perform(keeper_->server_stored(message.barrier_of_server));
  }
  void take(const Message& message) {
    for (const std::string& name : message.store) store_.insert(name);
    if (message.remove) store_.erase(*message.remove);
  }

  void kill_and_follow() {
    kill_keeper();
    next_keeper();
  }
  // Of what it had sent the manager reads some, the rest is lost with its socket. The server dies
  // with its keeper.
  void kill_keeper() {
    const auto arrives = rng_.uniform(sent_.size() + 1);
    for (std::size_t i = 0; i < arrives; ++i) take(sent_[i]);
    sent_.clear();
    acts_.clear();
    start_after_acts_ = false;
    server_ = {};
  }

  void next_keeper() {
    const auto written = LedgerPages(ledger_->bytes).read();
    const std::vector<std::string> names(store_.begin(), store_.end());
    const auto adoption =
        written ? judge_store(*written, names) : Result<Adoption>(std::unexpected(written.error()));
    if (!adoption) {
      SOMETIMES(true, "store: cold start");
      if (!have_memory_.empty() || (written && written->served))
        break_rule("a node with contents started cold: " + adoption.error().message);
      store_.clear();
      have_memory_.clear();
      return first_keeper();
    }
    SOMETIMES(adoption->leftover.size() > adoption->servers.size(), "store: leftover client");
    keeper_.emplace(*written, *adoption);
    for (const ClientId client : have_memory_) {
      if (!keeper_->holds(client)) break_rule("a client has memory that its new keeper may reuse");
    }
    SOMETIMES(keeper_->held() > have_memory_.size(), "store: client that never got its channel");
    // A client that was written down and not answered attaches again; its server lets go of it.
    LedgerPages(ledger_->bytes).write(keeper_->ledger());
    for (const std::string& name : adoption->leftover) send({{}, name, {}, 0});
    for (const HandOverFrame& client : keeper_->ledger().clients) {
      if (!have_memory_.contains(client.client)) perform(keeper_->drop(client.client));
    }
    if (acts_.empty())
      start_server();
    else
      start_after_acts_ = true;
  }

  void break_rule(const std::string& rule) {
    if (!broken_) broken_ = rule;
  }

  struct Ledger {
    alignas(8) std::array<std::byte, LedgerPages::kBytes> bytes{};
  };
  struct Server {
    bool has_memory = false, serving = false;
  };

  Rng rng_;
  std::unique_ptr<Ledger> ledger_;
  std::optional<KeeperMachine> keeper_;
  Server server_;
  std::deque<KeeperEffect> acts_;
  bool start_after_acts_ = false;
  std::deque<Message> sent_;
  std::set<std::string> store_;
  std::set<ClientId> have_memory_;
  std::set<std::pair<std::uint64_t, ClientId>> ever_answered_;
  std::uint64_t segment_ = 0, nonce_ = 0;
  std::optional<std::string> broken_;
};

TEST(KeeperStoreSim, Killed_anywhere_nothing_that_is_in_use_is_lost) {
  sometimes_reset();
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    const auto broken = Node(seed).run();
    ASSERT_FALSE(broken) << "seed " << seed << ": " << *broken;
  }
  for (const char* state : {"store: cold start", "store: leftover client",
                            "store: client that never got its channel"}) {
    EXPECT_GT(sometimes_count(state), 0u) << state;
  }
}

TEST(KeeperStoreSim, Answer_before_the_store_has_it_is_found) {
  g_planted_bug = PlantedBug::kHeldBeforeStored;
  std::uint64_t seed = 1;
  std::optional<std::string> broken;
  for (; seed <= 20 && !broken; ++seed) broken = Node(seed).run();
  g_planted_bug = PlantedBug::kNone;
  ASSERT_TRUE(broken) << "not found in 20 seeds";
  RecordProperty("planted_bug", std::string(to_string(PlantedBug::kHeldBeforeStored)));
  RecordProperty("tries", std::to_string(seed - 1));
  RecordProperty("unit", "seeds");
  RecordProperty("oracle", *broken);
  EXPECT_EQ(*broken, "a client has memory that its new keeper may reuse");
}

}  // namespace
}  // namespace orlop::protocol
