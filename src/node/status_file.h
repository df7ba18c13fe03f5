// SPDX-License-Identifier: Apache-2.0
// "<socket>.json": how the tools find a running node. Written whole (rename) by the keeper when a
// server serves, removed at a graceful end. A file whose keeper_pid does not live is stale.
#pragma once

#include <cstdint>
#include <string>

#include "base/ids.h"
#include "orlop/error.h"

namespace orlop::node {

struct StatusFile {
  std::string socket;
  std::string admin;  // as bound: "127.0.0.1:40123", "unix:/path", "off"
  std::uint32_t keeper_pid = 0;
  std::uint32_t server_pid = 0;
  std::uint32_t restarts = 0;
  SegmentId segment;  // in the file as text: 64 bits are no JSON number
  Incarnation incarnation;
};

std::string status_file_path(const std::string& socket);
Result<void> write_status_file(const StatusFile& status);
// Errors: kNoNode (no file), kCorrupt.
Result<StatusFile> read_status_file(const std::string& socket);
void remove_status_file(const std::string& socket);

}  // namespace orlop::node
