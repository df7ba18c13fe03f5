// SPDX-License-Identifier: Apache-2.0
#include "protocol/attach/keeper_machine.h"

#include <gtest/gtest.h>

namespace orlop::protocol {
namespace {

namespace fx = keeper_effect;

HoldFrame hold(std::uint64_t attach) {
  return {100 + attach, attach, 4711, {}, "w"};
}

std::string names(const KeeperEffects& effects) {
  std::string out;
  const auto add = [&](const std::string& name) { out += (out.empty() ? "" : " ") + name; };
  for (const KeeperEffect& effect : effects) {
    if (const auto* one = std::get_if<fx::Store>(&effect))
      add("store:" + std::to_string(one->client.value));
    if (const auto* one = std::get_if<fx::StoreServer>(&effect))
      add("store_server:" + std::to_string(one->server));
    if (std::holds_alternative<fx::WriteLedger>(effect)) add("write");
    if (std::holds_alternative<fx::HandOver>(effect)) add("hand_over");
    if (const auto* one = std::get_if<fx::Answer>(&effect))
      add("answer:" + std::to_string(one->frame.client.value));
    if (const auto* one = std::get_if<fx::LetGo>(&effect))
      add("let_go:" + std::to_string(one->client.value));
    if (const auto* one = std::get_if<fx::ForgetServer>(&effect))
      add("forget_server:" + std::to_string(one->server));
  }
  return out;
}
ClientId answered(const KeeperEffects& effects) {
  EXPECT_EQ(effects.size(), 1u);
  return std::get<fx::Answer>(effects.at(0)).frame.client;
}

TEST(KeeperMachine, First_server_starts_cold_until_one_has_served) {
  KeeperMachine keeper(SegmentId{5});
  EXPECT_EQ(names(keeper.server_started()), "hand_over");
  EXPECT_TRUE(keeper.begin_server(Incarnation{1}).hello.cold);
  EXPECT_TRUE(keeper.begin_server(Incarnation{2}).hello.cold);
  EXPECT_EQ(names(keeper.serving()), "");
  const auto warm = keeper.begin_server(Incarnation{3});
  EXPECT_FALSE(warm.hello.cold);
  EXPECT_EQ(warm.hello.segment, SegmentId{5});
  EXPECT_EQ(warm.hello.incarnation, Incarnation{3});
}

TEST(KeeperMachine, Hand_over_names_every_held_channel) {
  KeeperMachine keeper(SegmentId{5});
  keeper.serving();
  const ClientId first = answered(keeper.hold(hold(1)));
  const auto second = std::get<fx::Answer>(keeper.hold(hold(2)).at(0)).frame;
  EXPECT_EQ(second.attach, 2u);
  EXPECT_EQ(names(keeper.drop(first)), "let_go:1");
  EXPECT_EQ(names(keeper.drop(first)), "");
  const auto handed = keeper.begin_server(Incarnation{2});
  EXPECT_EQ(handed.hello.channels, 1u);
  ASSERT_EQ(handed.channels.size(), 1u);
  EXPECT_EQ(handed.channels[0].client, second.client);
  EXPECT_EQ(handed.channels[0].nonce, 102u);
  EXPECT_EQ(handed.channels[0].pid, 4711u);
}

TEST(KeeperMachine, Client_ids_are_never_reused) {
  KeeperMachine keeper(SegmentId{5});
  keeper.serving();
  const ClientId first = answered(keeper.hold(hold(1)));
  keeper.drop(first);
  keeper.begin_server(Incarnation{2});
  EXPECT_NE(answered(keeper.hold(hold(1))), first);
}

TEST(KeeperMachine, Over_the_limit_refused_with_reason) {
  for (const bool with_store : {false, true}) {  // those on their way into the store count too
    KeeperMachine keeper(SegmentId{5}, with_store);
    for (std::uint32_t i = 1; i <= kMaxClients; ++i) keeper.hold(hold(i));
    const auto refused = std::get<fx::Answer>(keeper.hold(hold(999)).at(0)).frame;
    EXPECT_FALSE(refused.client);
    EXPECT_EQ(refused.attach, 999u);
    EXPECT_NE(refused.text, "");
  }
}

// ---- with a store ----------------------------------------------------------------------------

TEST(KeeperMachineStore, Client_is_answered_after_it_is_stored_and_written_down) {
  KeeperMachine keeper(SegmentId{5}, true);
  EXPECT_EQ(names(keeper.serving()), "write");
  EXPECT_EQ(names(keeper.serving()), "");
  EXPECT_EQ(names(keeper.hold(hold(1))), "store:1");
  EXPECT_TRUE(keeper.ledger().clients.empty());
  EXPECT_EQ(keeper.begin_server(Incarnation{1}).channels.size(), 0u);
  EXPECT_EQ(names(keeper.stored(ClientId{1})), "write answer:1");
  EXPECT_EQ(keeper.ledger().clients.size(), 1u);
  EXPECT_EQ(names(keeper.drop(ClientId{1})), "write let_go:1");
  EXPECT_TRUE(keeper.ledger().clients.empty());
  EXPECT_EQ(keeper.ledger().next_client, 2u);
}

TEST(KeeperMachineStore, Server_gets_the_memory_after_its_pidfd_is_stored) {
  KeeperMachine keeper(SegmentId{5}, true);
  EXPECT_EQ(names(keeper.server_started()), "store_server:1");
  EXPECT_EQ(keeper.ledger().server, 0u);
  EXPECT_EQ(names(keeper.server_stored(1)), "write hand_over");
  EXPECT_EQ(keeper.ledger().server, 1u);
  EXPECT_EQ(names(keeper.server_stored(1)), "");
  EXPECT_EQ(names(keeper.server_ended()), "write forget_server:1");
  EXPECT_EQ(keeper.ledger().server, 0u);
  EXPECT_EQ(names(keeper.server_started()), "store_server:2");
  EXPECT_EQ(names(keeper.server_stored(1)), "");  // late word about a dead one
}

TEST(KeeperMachineStore, Server_dead_before_the_store_had_the_client_lets_it_go) {
  KeeperMachine keeper(SegmentId{5}, true);
  keeper.server_started();
  keeper.server_stored(1);
  keeper.hold(hold(1));
  EXPECT_EQ(names(keeper.server_ended()), "let_go:1 write forget_server:1");
  EXPECT_EQ(names(keeper.stored(ClientId{1})), "");
  EXPECT_EQ(keeper.held(), 0u);
  EXPECT_EQ(names(keeper.hold(hold(2))), "store:2");
}

TEST(KeeperMachineStore, Lost_store_answers_what_waits_and_asks_nothing_more) {
  KeeperMachine keeper(SegmentId{5}, true);
  keeper.server_started();
  keeper.hold(hold(1));
  keeper.hold(hold(2));
  EXPECT_EQ(names(keeper.store_lost()), "hand_over answer:1 answer:2");
  EXPECT_EQ(names(keeper.store_lost()), "");
  EXPECT_EQ(names(keeper.hold(hold(3))), "answer:3");
  EXPECT_EQ(names(keeper.drop(ClientId{1})), "let_go:1");
  EXPECT_EQ(names(keeper.server_ended()), "");
  EXPECT_EQ(names(keeper.server_started()), "hand_over");
}

TEST(KeeperMachineStore, Next_keeper_goes_on_where_the_ledger_ends) {
  KeeperMachine before(SegmentId{5}, true);
  before.server_started();
  before.server_stored(1);
  before.serving();
  for (const std::uint64_t attach : {1u, 2u}) {
    before.hold(hold(attach));
    before.stored(ClientId{static_cast<std::uint32_t>(attach)});
  }
  before.drop(ClientId{1});
  KeeperMachine after(before.ledger(), Adoption{5, 3, {}, {}});
  EXPECT_TRUE(after.served());
  EXPECT_TRUE(after.holds(ClientId{2}));
  EXPECT_FALSE(after.holds(ClientId{1}));
  EXPECT_EQ(after.ledger().server, 0u);  // it is dead
  EXPECT_EQ(names(after.server_started()), "store_server:4");
  EXPECT_EQ(names(after.hold(hold(9))), "store:5");
  const auto handed = after.begin_server(Incarnation{2});
  EXPECT_FALSE(handed.hello.cold);
  EXPECT_EQ(handed.hello.segment, SegmentId{5});
  EXPECT_EQ(handed.channels.size(), 1u);
}

}  // namespace
}  // namespace orlop::protocol
