// SPDX-License-Identifier: Apache-2.0
#include "protocol/attach/attach_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orlop::protocol {
namespace {

namespace fx = attach_effect;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr SegmentId kSegment{5};
constexpr ConnectionId kOne{1}, kTwo{2};
constexpr std::uint32_t kPid = 4711;

Bytes attach_bytes(std::uint64_t nonce = 77) {
  AttachFrame frame;
  frame.nonce = nonce;
  frame.name = "w";
  return encode(frame);
}
Bytes resume_bytes(ClientId client, std::uint64_t nonce = 77, SegmentId segment = kSegment) {
  ResumeFrame frame;
  frame.nonce = nonce;
  frame.segment = segment;
  frame.client = client;
  return encode(frame);
}
template <class Effect>
const Effect* effect(const AttachEffects& effects, std::size_t at) {
  return at < effects.size() ? std::get_if<Effect>(&effects[at]) : nullptr;
}
ErrorCode refusal(const AttachEffects& effects) {
  for (const AttachEffect& one : effects) {
    if (const auto* refuse = std::get_if<fx::Refuse>(&one)) return refuse->frame.code;
  }
  return ErrorCode{};
}

class AttachMachineTest : public ::testing::Test {
 protected:
  // A connection whose attach the keeper has acknowledged with this id.
  void attach(ConnectionId connection, ClientId client, std::uint64_t nonce = 77) {
    EXPECT_THAT(machine_.connected(connection, {kPid, {}}, 0), IsEmpty());
    const auto asked = machine_.frame(connection, attach_bytes(nonce), 1, 0);
    const auto* hold = effect<fx::CreateAndHold>(asked, asked.size() - 1);
    ASSERT_NE(hold, nullptr);
    const auto done = machine_.held({hold->frame.attach, client, {}});
    ASSERT_EQ(done.size(), 2u);
  }
  AttachMachine machine_{kSegment, {}};
};

TEST_F(AttachMachineTest, Attach_waits_for_keeper_then_welcomes) {
  machine_.connected(kOne, {kPid, {}}, 0);
  const auto asked = machine_.frame(kOne, attach_bytes(), 1, 0);
  ASSERT_EQ(asked.size(), 1u);
  const auto* hold = effect<fx::CreateAndHold>(asked, 0);
  ASSERT_NE(hold, nullptr);
  EXPECT_EQ(hold->frame.nonce, 77u);
  EXPECT_EQ(hold->frame.pid, kPid);
  const auto done = machine_.held({hold->frame.attach, ClientId{9}, {}});
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(effect<fx::AddClient>(done, 0)->client, ClientId{9});
  EXPECT_EQ(effect<fx::Welcome>(done, 1)->client, ClientId{9});
  EXPECT_EQ(machine_.attached(), 1u);
}

TEST_F(AttachMachineTest, Keeper_refusal_is_told_and_nothing_left) {
  machine_.connected(kOne, {kPid, {}}, 0);
  machine_.frame(kOne, attach_bytes(), 1, 0);
  EXPECT_EQ(refusal(machine_.held({1, {}, "full"})), ErrorCode::kLimit);
  EXPECT_EQ(machine_.known(), 0u);
  EXPECT_EQ(machine_.handshakes(), 0u);
}

TEST_F(AttachMachineTest, Hold_failed_is_told) {
  machine_.connected(kOne, {kPid, {}}, 0);
  machine_.frame(kOne, attach_bytes(), 1, 0);
  EXPECT_EQ(refusal(machine_.hold_failed(1, {ErrorCode::kSystem, "memfd"})), ErrorCode::kSystem);
  EXPECT_THAT(machine_.hold_failed(1, {ErrorCode::kSystem, "memfd"}), IsEmpty());
}

TEST_F(AttachMachineTest, Frame_without_its_descriptors_is_told_why) {
  const Error lost{ErrorCode::kLimit, "no place"};
  EXPECT_THAT(machine_.unreceived(kOne, lost), IsEmpty());  // nobody is there
  machine_.connected(kOne, {kPid, {}}, 0);
  EXPECT_EQ(refusal(machine_.unreceived(kOne, lost)), ErrorCode::kLimit);
  EXPECT_EQ(machine_.handshakes(), 0u);
  // What the driver knows about the peer comes first.
  machine_.connected(kTwo, {kPid, RefusalFrame{ErrorCode::kRefused, "user"}}, 0);
  EXPECT_EQ(refusal(machine_.unreceived(kTwo, lost)), ErrorCode::kRefused);
  attach(kOne, ClientId{9});
  EXPECT_EQ(machine_.unreceived(kOne, lost).size(), 2u);  // client lost, refused
  EXPECT_EQ(machine_.attached(), 0u);
}

TEST_F(AttachMachineTest, Hang_up_while_holding_drops_what_the_keeper_holds) {
  machine_.connected(kOne, {kPid, {}}, 0);
  machine_.frame(kOne, attach_bytes(), 1, 0);
  EXPECT_THAT(machine_.hung_up(kOne), IsEmpty());
  const auto done = machine_.held({1, ClientId{9}, {}});
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(effect<fx::DropHeld>(done, 0)->client, ClientId{9});
  EXPECT_EQ(machine_.known(), 0u);
}

TEST_F(AttachMachineTest, Hang_up_of_attached_loses_client_but_keeps_it_known) {
  attach(kOne, ClientId{9});
  const auto lost = machine_.hung_up(kOne);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(effect<fx::ClientLost>(lost, 0)->client, ClientId{9});
  EXPECT_EQ(machine_.attached(), 0u);
  EXPECT_EQ(machine_.known(), 1u);
  machine_.reclaimed(ClientId{9});
  EXPECT_EQ(machine_.known(), 0u);
}

TEST_F(AttachMachineTest, Second_frame_refused_and_client_lost) {
  attach(kOne, ClientId{9});
  const auto effects = machine_.frame(kOne, attach_bytes(), 1, 0);
  ASSERT_EQ(effects.size(), 2u);
  EXPECT_NE(effect<fx::ClientLost>(effects, 0), nullptr);
  EXPECT_EQ(refusal(effects), ErrorCode::kWrongState);
}

TEST_F(AttachMachineTest, Resume_after_loss_attaches_again) {
  attach(kOne, ClientId{9});
  machine_.hung_up(kOne);
  machine_.connected(kTwo, {kPid, {}}, 0);
  const auto effects = machine_.frame(kTwo, resume_bytes(ClientId{9}), 1, 0);
  ASSERT_EQ(effects.size(), 1u);
  EXPECT_EQ(effect<fx::Resume>(effects, 0)->frame.client, ClientId{9});
  EXPECT_EQ(machine_.attached(), 1u);
}

TEST_F(AttachMachineTest, Resume_of_handed_over_client_attaches) {
  AttachMachine machine(kSegment, {{ClientId{4}, 77, kPid}});
  machine.connected(kOne, {kPid, {}}, 0);
  const auto effects = machine.frame(kOne, resume_bytes(ClientId{4}), 1, 0);
  ASSERT_EQ(effects.size(), 1u);
  EXPECT_NE(effect<fx::Resume>(effects, 0), nullptr);
}

TEST_F(AttachMachineTest, Resume_over_open_connection_closes_the_older) {
  attach(kOne, ClientId{9});
  machine_.connected(kTwo, {kPid, {}}, 0);
  const auto effects = machine_.frame(kTwo, resume_bytes(ClientId{9}), 1, 0);
  ASSERT_EQ(effects.size(), 3u);
  EXPECT_NE(effect<fx::ClientLost>(effects, 0), nullptr);
  EXPECT_EQ(effect<fx::Close>(effects, 1)->connection, kOne);
  EXPECT_EQ(effect<fx::Resume>(effects, 2)->connection, kTwo);
  EXPECT_THAT(machine_.hung_up(kOne), IsEmpty());
  EXPECT_EQ(machine_.attached(), 1u);
}

TEST_F(AttachMachineTest, Resume_of_strangers_refused) {
  attach(kOne, ClientId{9});
  machine_.hung_up(kOne);
  const auto attempt = [&](const Bytes& bytes, std::uint32_t pid) {
    machine_.connected(kTwo, {pid, {}}, 0);
    return refusal(machine_.frame(kTwo, bytes, 1, 0));
  };
  EXPECT_EQ(attempt(resume_bytes(ClientId{9}, 77, SegmentId{6}), kPid), ErrorCode::kClosed);
  EXPECT_EQ(attempt(resume_bytes(ClientId{8}), kPid), ErrorCode::kClosed);
  EXPECT_EQ(attempt(resume_bytes(ClientId{9}, 78), kPid), ErrorCode::kClosed);
  EXPECT_EQ(attempt(resume_bytes(ClientId{9}), kPid + 1), ErrorCode::kRefused);
  EXPECT_EQ(machine_.known(), 1u);
}

TEST_F(AttachMachineTest, Attach_of_known_instance_forgets_the_old_client_once) {
  AttachMachine machine(kSegment, {{ClientId{4}, 77, kPid}});
  machine.connected(kOne, {kPid, {}}, 0);
  auto effects = machine.frame(kOne, attach_bytes(), 1, 0);
  ASSERT_EQ(effects.size(), 2u);
  EXPECT_EQ(effect<fx::Forget>(effects, 0)->client, ClientId{4});
  EXPECT_NE(effect<fx::CreateAndHold>(effects, 1), nullptr);
  machine.held({1, ClientId{5}, {}});
  machine.hung_up(kOne);
  machine.connected(kTwo, {kPid, {}}, 0);
  effects = machine.frame(kTwo, attach_bytes(), 1, 0);
  EXPECT_EQ(effect<fx::Forget>(effects, 0)->client, ClientId{5});
  // The forgotten cannot come back, reclaimed or not.
  machine.connected(ConnectionId{3}, {kPid, {}}, 0);
  EXPECT_EQ(refusal(machine.frame(ConnectionId{3}, resume_bytes(ClientId{4}), 1, 0)),
            ErrorCode::kClosed);
}

// A server asked for two in turn and died before it could drop the first (simulation seed
// 50004998).
TEST_F(AttachMachineTest, Attach_forgets_all_that_is_known_under_its_nonce) {
  AttachMachine machine(kSegment, {{ClientId{4}, 77, kPid}, {ClientId{5}, 77, kPid}});
  machine.connected(kOne, {kPid, {}}, 0);
  const auto effects = machine.frame(kOne, attach_bytes(), 1, 0);
  ASSERT_EQ(effects.size(), 3u);
  EXPECT_EQ(effect<fx::Forget>(effects, 0)->client, ClientId{4});
  EXPECT_EQ(effect<fx::Forget>(effects, 1)->client, ClientId{5});
}

TEST_F(AttachMachineTest, Resume_forgets_what_else_is_known_under_its_nonce) {
  AttachMachine machine(
      kSegment, {{ClientId{4}, 77, kPid}, {ClientId{5}, 77, kPid}, {ClientId{6}, 78, kPid}});
  machine.connected(kOne, {kPid, {}}, 0);
  const auto effects = machine.frame(kOne, resume_bytes(ClientId{5}), 1, 0);
  ASSERT_EQ(effects.size(), 2u);
  EXPECT_EQ(effect<fx::Forget>(effects, 0)->client, ClientId{4});
  EXPECT_EQ(effect<fx::Resume>(effects, 1)->frame.client, ClientId{5});
  machine.reclaimed(ClientId{4});
  EXPECT_EQ(machine.known(), 2u);
}

TEST_F(AttachMachineTest, Attach_with_a_nonce_of_another_process_refused) {
  AttachMachine machine(kSegment, {{ClientId{4}, 77, kPid}});
  machine.connected(kOne, {kPid + 1, {}}, 0);
  EXPECT_EQ(refusal(machine.frame(kOne, attach_bytes(), 1, 0)), ErrorCode::kRefused);
  EXPECT_EQ(machine.known(), 1u);
}

TEST_F(AttachMachineTest, Second_attempt_while_holding_closes_the_first) {
  machine_.connected(kOne, {kPid, {}}, 0);
  machine_.frame(kOne, attach_bytes(), 1, 0);
  machine_.connected(kTwo, {kPid, {}}, 0);
  const auto effects = machine_.frame(kTwo, attach_bytes(), 1, 0);
  ASSERT_EQ(effects.size(), 2u);
  EXPECT_EQ(effect<fx::Close>(effects, 0)->connection, kOne);
  EXPECT_EQ(effect<fx::DropHeld>(machine_.held({1, ClientId{1}, {}}), 0)->client, ClientId{1});
  EXPECT_EQ(machine_.held({2, ClientId{2}, {}}).size(), 2u);
}

TEST_F(AttachMachineTest, Peer_that_may_not_is_told_at_its_first_frame) {
  machine_.connected(kOne, {kPid, RefusalFrame{ErrorCode::kRefused, "uid 7"}}, 0);
  EXPECT_EQ(refusal(machine_.frame(kOne, attach_bytes(), 1, 0)), ErrorCode::kRefused);
}

TEST_F(AttachMachineTest, Hostile_frames_refused) {
  const auto attempt = [&](const Bytes& bytes, unsigned descriptors) {
    machine_.connected(kOne, {kPid, {}}, 0);
    return refusal(machine_.frame(kOne, bytes, descriptors, 0));
  };
  EXPECT_EQ(attempt({}, 0), ErrorCode::kInvalidArgument);
  EXPECT_EQ(attempt(attach_bytes(), 0), ErrorCode::kInvalidArgument);
  EXPECT_EQ(attempt(attach_bytes(), 2), ErrorCode::kInvalidArgument);
  EXPECT_EQ(attempt(encode(DropFrame{ClientId{1}}), 0), ErrorCode::kInvalidArgument);
  EXPECT_EQ(attempt(encode_bare(FrameKind::kStop), 0), ErrorCode::kInvalidArgument);
  AttachFrame old;
  old.nonce = 1;
  old.abi = segment::kAbiVersion + 1;
  EXPECT_EQ(attempt(encode(old), 1), ErrorCode::kAbiMismatch);
  EXPECT_EQ(machine_.handshakes(), 0u);
}

TEST_F(AttachMachineTest, Silent_connection_is_ended_at_its_deadline) {
  machine_.connected(kOne, {kPid, {}}, 100);
  EXPECT_EQ(machine_.next_deadline(), 100 + kHandshakeLimit);
  EXPECT_THAT(machine_.tick(99 + kHandshakeLimit), IsEmpty());
  EXPECT_EQ(refusal(machine_.tick(100 + kHandshakeLimit)), ErrorCode::kDeadline);
  EXPECT_EQ(machine_.next_deadline(), kNever);
}

TEST_F(AttachMachineTest, Attached_client_has_no_deadline) {
  attach(kOne, ClientId{9});
  EXPECT_EQ(machine_.next_deadline(), kNever);
}

TEST_F(AttachMachineTest, Too_many_handshakes_refused) {
  for (std::uint64_t i = 1; i <= kMaxHandshakes; ++i) {
    EXPECT_THAT(machine_.connected(ConnectionId{i}, {kPid, {}}, 0), IsEmpty());
  }
  EXPECT_EQ(refusal(machine_.connected(ConnectionId{1000}, {kPid, {}}, 0)), ErrorCode::kLimit);
}

TEST_F(AttachMachineTest, Too_many_clients_refused) {
  for (std::uint32_t i = 1; i <= kMaxClients; ++i) attach(ConnectionId{i}, ClientId{i}, i);
  machine_.connected(ConnectionId{1000}, {kPid, {}}, 0);
  EXPECT_EQ(refusal(machine_.frame(ConnectionId{1000}, attach_bytes(5000), 1, 0)),
            ErrorCode::kLimit);
}

TEST_F(AttachMachineTest, Expelled_client_is_told_and_lost) {
  attach(kOne, ClientId{9});
  const auto effects = machine_.expel(ClientId{9}, {ErrorCode::kInvalidArgument, "ring"});
  ASSERT_EQ(effects.size(), 2u);
  EXPECT_NE(effect<fx::ClientLost>(effects, 0), nullptr);
  EXPECT_THAT(effect<fx::Refuse>(effects, 1)->frame.text, HasSubstr("ring"));
  EXPECT_EQ(machine_.known(), 1u);
}

}  // namespace
}  // namespace orlop::protocol
