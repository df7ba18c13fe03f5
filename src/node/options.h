// SPDX-License-Identifier: Apache-2.0
// What a node can be told. Where each member is set from is the table in option_table.h.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "protocol/node/node_machine.h"
#include "runtime/segment_files.h"

namespace orlop::node {

// The backoff begins after the first restart, which is immediate: a server that died once comes
// back within a fraction of a second, one that dies at every start does not eat the machine.
struct RestartBackoff {
  MonoNs first = 100 * kNsPerMs;
  MonoNs most = 5 * kNsPerSecond;
  MonoNs forget_after = kNsPerSecond;  // a server that served so long was a good one
};

struct NodeOptions {
  runtime::MemoryOptions memory;
  // A new node may have to wait until the clients of the one before have let go of its memory.
  MonoNs memory_wait = 30 * kNsPerSecond;
  std::string socket;                 // path; empty: nothing said
  std::string admin = "127.0.0.1:0";  // "host:port" (port 0: any), "unix:/path", "off"
  protocol::NodeConfig machine;       // policy, reserve, caps
  std::vector<uid_t> allow_uids;      // apart from our own and root
  bool unsafe_no_pidfd = false;
  std::optional<MonoNs> spin;  // none: adaptive
  RestartBackoff backoff;
  MonoNs stop_grace = 5 * kNsPerSecond;     // of the server at a graceful stop, then SIGKILL
  MonoNs start_limit = 120 * kNsPerSecond;  // from the start of a server until it must serve
  MonoNs hang_limit = 30 * kNsPerSecond;    // from a ping without an answer to SIGKILL; 0: never
  LogLevel log_level = LogLevel::kInfo;
};

}  // namespace orlop::node
