// SPDX-License-Identifier: Apache-2.0
// The keeper: the parent process of a node. It owns the memory and every client's descriptors, so
// that a server may die at any point and the next one finds everything.
//
// Guarantees
//   * One daemon per socket (file lock); a stale socket is replaced, the path is removed at a
//     graceful end.
//   * A new server starts only after SIGKILL and waitpid of the old one, and after everything that
//     the old one had sent was read. First restart at once, then backoff.
//   * The server dies with the keeper (parent death signal).
//   * SIGTERM / SIGINT: the server answers what waits and ends, then the keeper. A second one, or
//     stop_grace, ends the server by SIGKILL.
//   * Never waits for the server: the socket between them is non-blocking.
//
//   state \ event | server serves     | server ended                    | stop signal
//   --------------+-------------------+---------------------------------+--------------------------
//   Starting      | -> Serving, file  | first start, configuration: end | -> Stopping, kStop
//                 |                   | else -> Waiting (backoff)       |
//   Serving       | -                 | -> Waiting (0, then backoff)    | -> Stopping, kStop
//   Waiting       | -                 | -                               | end
//   Stopping      | -                 | end                             | SIGKILL
//
// A server that finds the control area unreadable (kExitSegmentCorrupt) is followed by new memory
// and a new segment_id; clients see the end of their keeper pipe and let go of the old memory.
// Thread: one.
#pragma once

#include <string>
#include <vector>

#include "node/options.h"
#include "orlop/error.h"

namespace orlop::node {

// Exit codes of the server, read by the keeper.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitBadConfiguration = 64;
inline constexpr int kExitSegmentCorrupt = 65;

// Number under which the server finds its end of the keeper's socket.
inline constexpr int kKeeperFdNumber = 3;

// server_command: argv of the server, run from /proc/self/exe. Returns after a graceful stop.
// Errors: kAddressInUse (owner's pid named), kNoMemory (numbers), kInvalidArgument, kSystem.
Result<void> run_keeper(const NodeOptions& options, std::vector<std::string> server_command);

}  // namespace orlop::node
