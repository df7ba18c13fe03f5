// SPDX-License-Identifier: Apache-2.0
#include "protocol/attach/keeper_machine.h"

#include <gtest/gtest.h>

namespace orlop::protocol {
namespace {

HoldFrame hold(std::uint64_t attach) {
  return {100 + attach, attach, 4711, {}, "w"};
}

TEST(KeeperMachine, First_server_starts_cold_until_one_has_served) {
  KeeperMachine keeper(SegmentId{5});
  EXPECT_TRUE(keeper.begin_server(Incarnation{1}).hello.cold);
  EXPECT_TRUE(keeper.begin_server(Incarnation{2}).hello.cold);
  keeper.serving();
  const auto warm = keeper.begin_server(Incarnation{3});
  EXPECT_FALSE(warm.hello.cold);
  EXPECT_EQ(warm.hello.segment, SegmentId{5});
  EXPECT_EQ(warm.hello.incarnation, Incarnation{3});
}

TEST(KeeperMachine, Hand_over_names_every_held_channel) {
  KeeperMachine keeper(SegmentId{5});
  keeper.serving();
  const ClientId first = keeper.hold(hold(1)).client;
  const HeldFrame second = keeper.hold(hold(2));
  EXPECT_EQ(second.attach, 2u);
  EXPECT_TRUE(keeper.drop(first));
  EXPECT_FALSE(keeper.drop(first));
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
  const ClientId first = keeper.hold(hold(1)).client;
  keeper.drop(first);
  keeper.begin_server(Incarnation{2});
  EXPECT_NE(keeper.hold(hold(1)).client, first);
}

TEST(KeeperMachine, Over_the_limit_refused_with_reason) {
  KeeperMachine keeper(SegmentId{5});
  for (std::uint32_t i = 1; i <= kMaxClients; ++i) EXPECT_TRUE(keeper.hold(hold(i)).client);
  const HeldFrame refused = keeper.hold(hold(999));
  EXPECT_FALSE(refused.client);
  EXPECT_EQ(refused.attach, 999u);
  EXPECT_NE(refused.text, "");
}

}  // namespace
}  // namespace orlop::protocol
