// SPDX-License-Identifier: Apache-2.0
#include "protocol/attach/frame_kinds.h"

#include <cstring>
#include <string>

namespace orlop::protocol {

std::string_view name_of(FrameKind kind) {
  switch (kind) {
    case FrameKind::kAttach:
      return "attach";
    case FrameKind::kResume:
      return "resume";
    case FrameKind::kWelcome:
      return "welcome";
    case FrameKind::kResumed:
      return "resumed";
    case FrameKind::kRefusal:
      return "refusal";
    case FrameKind::kHold:
      return "hold";
    case FrameKind::kDrop:
      return "drop";
    case FrameKind::kServing:
      return "serving";
    case FrameKind::kHello:
      return "hello";
    case FrameKind::kHandOver:
      return "hand_over";
    case FrameKind::kHandOverEnd:
      return "hand_over_end";
    case FrameKind::kHeld:
      return "held";
    case FrameKind::kStop:
      return "stop";
    case FrameKind::kPing:
      return "ping";
    case FrameKind::kPong:
      return "pong";
    case FrameKind::kUpgrade:
      return "upgrade";
    case FrameKind::kLedger:
      return "ledger";
  }
  return {};
}

bool is_bare(FrameKind kind) {
  return kind == FrameKind::kServing || kind == FrameKind::kHandOverEnd ||
         kind == FrameKind::kStop || kind == FrameKind::kPing || kind == FrameKind::kPong;
}

Result<FrameKind> frame_kind(std::span<const std::byte> frame) {
  std::uint32_t words[2] = {0, 0};
  if (frame.size() < sizeof words) {
    return fail(ErrorCode::kInvalidArgument,
                "frame: length is " + std::to_string(frame.size()) + " bytes, 8 are the least");
  }
  if (frame.size() > kMaxFrameBytes) {
    return fail(ErrorCode::kInvalidArgument, "frame: length is " + std::to_string(frame.size()) +
                                                 " bytes, " + std::to_string(kMaxFrameBytes) +
                                                 " are the most");
  }
  std::memcpy(words, frame.data(), sizeof words);
  if (words[0] != kFrameMagic) {
    return fail(ErrorCode::kInvalidArgument, "frame: magic is not \"ORLF\": not an Orlop peer");
  }
  const auto kind = static_cast<FrameKind>(words[1]);
  if (name_of(kind).empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "frame: kind " + std::to_string(words[1]) + " is unknown");
  }
  if (is_bare(kind) && frame.size() != sizeof words) {
    return fail(ErrorCode::kInvalidArgument, std::string(name_of(kind)) + " frame: length " +
                                                 std::to_string(frame.size() - sizeof words) +
                                                 " bytes too many");
  }
  return kind;
}

DescriptorRange descriptors_of(FrameKind kind) {
  switch (kind) {
    case FrameKind::kAttach:
    case FrameKind::kResume:
      return {1, 1};
    case FrameKind::kWelcome:
      return {6, 6};
    case FrameKind::kHold:
    case FrameKind::kHandOver:
      return {5, 5};
    case FrameKind::kHello:
      return {3, 4};
    case FrameKind::kHeld:
      return {0, 1};
    case FrameKind::kResumed:
    case FrameKind::kRefusal:
    case FrameKind::kDrop:
    case FrameKind::kServing:
    case FrameKind::kHandOverEnd:
    case FrameKind::kStop:
    case FrameKind::kPing:
    case FrameKind::kPong:
    case FrameKind::kUpgrade:
    case FrameKind::kLedger:
      return {0, 0};
  }
  return {0, 0};
}

}  // namespace orlop::protocol
