// SPDX-License-Identifier: Apache-2.0
// How every subcommand of `orlop` ends. Scripts depend on these numbers: never renumber.
// The same table for people: docs/operations/cli.md.
#pragma once

#include "orlop/error.h"

namespace orlop::cli {

enum class ExitCode : int {
  kOk = 0,
  kBad = 1,      // the thing asked about is bad: wrong bytes, a lost page, a bar missed
  kUsage = 2,    // unknown option, bad value, unreadable or malformed input file
  kNoNode = 3,   // no node answers at the socket
  kRefused = 4,  // refused or does not fit: other user, other version, memory, occupied socket
  kFailed = 5,   // an operating system call, a worker or a node of ours failed
  kInterrupted = 130,  // Ctrl-C, as shells count it
};

constexpr int to_int(ExitCode code) {
  return static_cast<int>(code);
}

// For a subcommand that ends because of this error.
constexpr ExitCode exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return ExitCode::kUsage;
    case ErrorCode::kNoNode:
      return ExitCode::kNoNode;
    case ErrorCode::kRefused:
    case ErrorCode::kAbiMismatch:
    case ErrorCode::kNoMemory:
    case ErrorCode::kNamespaceConflict:
    case ErrorCode::kLimit:
    case ErrorCode::kAddressInUse:
      return ExitCode::kRefused;
    case ErrorCode::kCorrupt:
      return ExitCode::kBad;
    case ErrorCode::kWrongState:
    case ErrorCode::kForkedChild:
    case ErrorCode::kDeadline:
    case ErrorCode::kSystem:
    case ErrorCode::kClosed:
      return ExitCode::kFailed;
  }
  return ExitCode::kFailed;
}

}  // namespace orlop::cli
