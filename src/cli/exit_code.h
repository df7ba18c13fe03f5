// SPDX-License-Identifier: Apache-2.0
// How every subcommand of `orlop` ends. Scripts depend on these numbers: never renumber.
// The same table for people: docs/operations/cli.md.
#pragma once

#include "node/exit_status.h"
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

// The table itself: for --help, the manual page, and the test that holds the docs against it.
struct ExitCodeMeaning {
  ExitCode code;
  const char* brief;
  const char* meaning;
};
inline constexpr ExitCodeMeaning kExitCodes[] = {
    {ExitCode::kOk, "ok", "Done, and what was asked about is well."},
    {ExitCode::kBad, "what was asked about is bad",
     "What was asked about is bad: wrong bytes, a lost page, a missed bar, a key that is not "
     "there, "
     "a drain that does not come to rest."},
    {ExitCode::kUsage, "usage",
     "Unknown option, bad value, a namespace, key or client that does not exist, an unreadable or "
     "malformed input file."},
    {ExitCode::kNoNode, "no node", "No node answers at the socket."},
    {ExitCode::kRefused, "refused or does not fit",
     "Refused or does not fit: other user, other version, memory, occupied socket, a limit."},
    {ExitCode::kFailed, "something failed",
     "An operating system call, a worker or a node of ours failed, or did not answer in time."},
    {ExitCode::kInterrupted, "interrupted", "Ended by Ctrl-C."},
};

constexpr int to_int(ExitCode code) {
  return static_cast<int>(code);
}

// For a subcommand that ends because of this error; the same for a node, whose room knows only the
// numbers.
constexpr ExitCode exit_code_of(ErrorCode code) {
  return static_cast<ExitCode>(node::exit_status_of(code));
}
static_assert(to_int(ExitCode::kBad) == node::kStatusBad &&
              to_int(ExitCode::kUsage) == node::kStatusUsage &&
              to_int(ExitCode::kNoNode) == node::kStatusNoNode &&
              to_int(ExitCode::kRefused) == node::kStatusRefused &&
              to_int(ExitCode::kFailed) == node::kStatusFailed);

}  // namespace orlop::cli
