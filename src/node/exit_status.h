// SPDX-License-Identifier: Apache-2.0
// How `orlopd` and `orlop serve` end because of an error; the numbers are those of every other
// subcommand (src/cli/exit_code.h, docs/operations/cli.md). Not the codes by which a server tells
// its keeper how it ended: those are in keeper.h.
#pragma once

#include "orlop/error.h"

namespace orlop::node {

inline constexpr int kStatusBad = 1;
inline constexpr int kStatusUsage = 2;
inline constexpr int kStatusNoNode = 3;
inline constexpr int kStatusRefused = 4;
inline constexpr int kStatusFailed = 5;

constexpr int exit_status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return kStatusUsage;
    case ErrorCode::kNoNode:
      return kStatusNoNode;
    case ErrorCode::kRefused:
    case ErrorCode::kAbiMismatch:
    case ErrorCode::kNoMemory:
    case ErrorCode::kNamespaceConflict:
    case ErrorCode::kLimit:
    case ErrorCode::kAddressInUse:
      return kStatusRefused;
    case ErrorCode::kCorrupt:
      return kStatusBad;
    case ErrorCode::kWrongState:
    case ErrorCode::kForkedChild:
    case ErrorCode::kDeadline:
    case ErrorCode::kSystem:
    case ErrorCode::kClosed:
      return kStatusFailed;
  }
  return kStatusFailed;
}

}  // namespace orlop::node
