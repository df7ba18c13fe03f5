// SPDX-License-Identifier: Apache-2.0
#include "orlop/error.h"

namespace orlop {

// No default case: the compiler names a code that was added without a name.
std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kWrongState:
      return "wrong_state";
    case ErrorCode::kForkedChild:
      return "forked_child";
    case ErrorCode::kNoNode:
      return "no_node";
    case ErrorCode::kRefused:
      return "refused";
    case ErrorCode::kAbiMismatch:
      return "abi_mismatch";
    case ErrorCode::kDeadline:
      return "deadline";
    case ErrorCode::kNoMemory:
      return "no_memory";
    case ErrorCode::kNamespaceConflict:
      return "namespace_conflict";
    case ErrorCode::kLimit:
      return "limit";
    case ErrorCode::kAddressInUse:
      return "address_in_use";
    case ErrorCode::kSystem:
      return "system";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kClosed:
      return "closed";
  }
  return "unknown";  // a number from outside that is no code
}

}  // namespace orlop
