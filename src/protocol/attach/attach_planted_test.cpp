// SPDX-License-Identifier: Apache-2.0
// Simulation build: the planted bug does what its name says.
#include <gtest/gtest.h>

#include "base/planted.h"
#include "protocol/attach/attach_machine.h"
#include "protocol/attach/keeper_machine.h"

namespace orlop::protocol {
namespace {

TEST(AttachMachinePlanted, Descriptors_before_keeper_ack_welcomes_at_once) {
  g_planted_bug = PlantedBug::kDescriptorsBeforeKeeperAck;
  AttachMachine machine(SegmentId{5}, {});
  KeeperMachine keeper(SegmentId{5});
  machine.connected(ConnectionId{1}, {7, {}}, 0);
  AttachFrame frame;
  frame.nonce = 77;
  const auto effects = machine.frame(ConnectionId{1}, encode(frame), 1, 0);
  g_planted_bug = PlantedBug::kNone;
  ASSERT_EQ(effects.size(), 3u);
  const auto& hold = std::get<attach_effect::CreateAndHold>(effects[0]);
  const auto& welcome = std::get<attach_effect::Welcome>(effects[2]);
  const auto held = std::get<keeper_effect::Answer>(keeper.hold(hold.frame).at(0)).frame;
  EXPECT_EQ(held.client, welcome.client);  // so that a run without a kill goes on as always
  EXPECT_TRUE(machine.held(held).empty());
  EXPECT_EQ(machine.attached(), 1u);
}

}  // namespace
}  // namespace orlop::protocol
