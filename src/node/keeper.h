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
//   * SIGHUP: the program on disk takes over the memory, if it can and its configuration is good;
//     else everything stays, or goes back to the program that served well (docs/operations/
//     upgrade.md). A terminal's hang-up is no reason.
//   * Servers get the configuration file as it was when it was accepted last: at the start of the
//     keeper, or by a SIGHUP that succeeded. What is in the file since then changes nothing.
//   * A server that hangs is killed and followed by another one.
//   * Under a service manager with a descriptor store, the keeper after this one goes on with the
//     same memory and the same clients.
//   * Never waits for the server or for the service manager.
//
// What happens when is decided by two pure machines, ServerLife and KeeperMachine (src/protocol/
// attach, tables in docs/protocol/attach.md); this is their driver.
//
// A server that finds the control area unreadable (kExitSegmentCorrupt) is followed by new memory
// and a new segment_id; clients see the end of their keeper pipe and let go of the old memory.
// Thread: one.
#pragma once

#include <string>
#include <vector>

#include "node/options.h"
#include "orlop/error.h"
#include "platform/file_descriptor.h"
#include "protocol/attach/preflight.h"

namespace orlop::node {

// Exit codes of the server, read by the keeper.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitBadConfiguration = 64;
inline constexpr int kExitSegmentCorrupt = 65;

// Number under which the server finds its end of the keeper's socket.
inline constexpr int kKeeperFdNumber = 3;
// And under which servers and preflights find the configuration file (kept_configuration.h).
inline constexpr int kConfigurationFdNumber = 4;

// How servers and preflights of a program are started: argv, run from the program's file.
struct KeeperCommands {
  std::vector<std::string> server;
  std::vector<std::string> preflight;
  protocol::Preflight ours;        // what this program answers itself
  std::string configuration_file;  // empty: there is none
  FileDescriptor configuration;    // the copy that was accepted at the start
};

// Returns after a graceful stop.
// Errors: kAddressInUse (owner's pid named), kNoMemory (numbers), kInvalidArgument, kSystem.
Result<void> run_keeper(const NodeOptions& options, KeeperCommands commands);

}  // namespace orlop::node
