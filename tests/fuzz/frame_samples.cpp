// SPDX-License-Identifier: Apache-2.0
#include "frame_samples.h"

namespace orlop::fuzz {

using namespace protocol;

AttachFrame sample_attach() {
  AttachFrame frame;
  frame.nonce = 0x1122334455667788;
  frame.name = "vllm-0";
  return frame;
}

ResumeFrame sample_resume() {
  ResumeFrame frame;
  frame.nonce = 0x1122334455667788;
  frame.segment = SegmentId{77};
  frame.client = ClientId{3};
  frame.ring_generation = 2;
  frame.held = {make_put_id(ClientId{3}, 1), make_put_id(ClientId{3}, 9)};
  return frame;
}

LedgerFrame sample_ledger() {
  LedgerFrame frame;
  frame.segment = SegmentId{77};
  frame.served = true;
  frame.next_client = 9;
  frame.server = 2;
  frame.restarts = 1;
  frame.control_bytes = 8 << 20;
  frame.value_bytes = 64 << 20;
  frame.slab_bytes = 2 << 20;
  frame.touched_bytes = frame.value_bytes;
  frame.placement = "0=67108864";
  frame.clients = {{ClientId{3}, 5, 100, {}, "engine"}, {ClientId{8}, 6, 101, {}, ""}};
  return frame;
}

std::vector<std::pair<std::string, Bytes>> sample_frames() {
  HelloFrame hello;
  hello.segment = SegmentId{77};
  hello.incarnation = Incarnation{5};
  hello.admin = true;
  hello.channels = 2;
  hello.restarts = 1;
  hello.keeper_pid = 4711;
  hello.keeper_started = 1'000'000'000;
  hello.control_bytes = 8 << 20;
  hello.value_bytes = 64 << 20;
  hello.placement = "0=33554432 1=33554432";
  hello.last_end = "killed by signal 9";
  WelcomeFrame welcome;
  welcome.segment = SegmentId{77};
  welcome.incarnation = Incarnation{5};
  welcome.client = ClientId{3};
  welcome.control_bytes = 8 << 20;
  welcome.value_bytes = 64 << 20;
  const UpgradeFrame upgrade{UpgradeOutcome::kRolledBack, "0.1.0", "0.2.0", "it died", 1, 2, 3};
  AttachFrame other_abi = sample_attach();
  other_abi.abi = segment::kAbiVersion + 1;
  return {
      {"attach", encode(sample_attach())},
      {"attach-other-abi", encode(other_abi)},
      {"resume", encode(sample_resume())},
      {"welcome", encode(welcome)},
      {"resumed", encode(ResumedFrame{Incarnation{5}})},
      {"refusal", encode(RefusalFrame{ErrorCode::kLimit, "the node has 256 clients"})},
      {"hold", encode(HoldFrame{5, 1, 100, {}, "engine"})},
      {"held", encode(HeldFrame{1, ClientId{3}, {}})},
      {"held-refused", encode(HeldFrame{1, {}, "the keeper holds 256 clients"})},
      {"drop", encode(DropFrame{ClientId{3}})},
      {"hello", encode(hello)},
      {"hand-over", encode(HandOverFrame{ClientId{3}, 5, 100, {}, "engine"})},
      {"upgrade", encode(upgrade)},
      {"ledger", encode(sample_ledger())},
      {"serving", encode_bare(FrameKind::kServing)},
      {"hand-over-end", encode_bare(FrameKind::kHandOverEnd)},
      {"stop", encode_bare(FrameKind::kStop)},
      {"ping", encode_bare(FrameKind::kPing)},
      {"pong", encode_bare(FrameKind::kPong)},
  };
}

}  // namespace orlop::fuzz
