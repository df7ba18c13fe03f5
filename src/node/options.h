// SPDX-License-Identifier: Apache-2.0
// Configuration of a node: flags, file, defaults, and the effective values in words.
//
// One table (options.cpp) names every option once: its key in the file ("memory.capacity"), its
// flag
// ("--capacity"), its help. Flags win over the file. Used by `orlopd` and `orlop serve`.
// Thread: none.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "orlop/error.h"
#include "protocol/node/node_machine.h"
#include "runtime/segment_files.h"

namespace CLI {
class App;
}

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
  std::string socket;                 // path
  std::string admin = "127.0.0.1:0";  // "host:port" (port 0: any), "unix:/path", "off"
  protocol::NodeConfig machine;       // policy, reserve, caps
  std::vector<uid_t> allow_uids;      // apart from our own and root
  bool unsafe_no_pidfd = false;
  std::optional<MonoNs> spin;  // none: adaptive
  RestartBackoff backoff;
  MonoNs stop_grace = 5 * kNsPerSecond;  // of the server at a graceful stop, then SIGKILL
  LogLevel log_level = LogLevel::kInfo;
};

// What was written on the command line, not yet understood. `config` names the file, if any.
struct OptionTexts {
  std::string config;
  std::map<std::string, std::string> by_key;  // "memory.capacity" -> "256MiB"; empty = not given
};

// Registers every option on app; texts must live as long as app parses.
void add_options(CLI::App& app, OptionTexts& texts);

// Reads the file if one is named, applies the texts over it, checks everything.
// Errors: kInvalidArgument naming the key or flag, what is wrong and the nearest known key for an
// unknown one; kSystem when the file cannot be read.
Result<NodeOptions> resolve(const OptionTexts& texts);

// Keys and effective values in words, in the table's order: for the start log and status.
std::vector<std::pair<std::string, std::string>> effective(const NodeOptions& options);

}  // namespace orlop::node
