// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_memory.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "cli/interrupt.h"
#include "cli/status_fields.h"
#include "node/status_file.h"
#include "platform/clock.h"

namespace orlop::cli {
namespace {

constexpr std::string_view kOurMemfds = "/memfd:orlop-";
constexpr std::string_view kControlMemfd = "/memfd:orlop-control";
constexpr int kQuietLooks = 3;
constexpr MonoNs kLookNs = 100 * kNsPerMs;
constexpr MonoNs kSettleLimit = 10 * kNsPerSecond;

}  // namespace

std::uint64_t private_bytes(const std::vector<SmapsEntry>& entries) {
  std::uint64_t bytes = 0;
  for (const SmapsEntry& entry : entries) {
    if (entry.name.starts_with(kOurMemfds)) continue;
    bytes += entry.totals.private_clean + entry.totals.private_dirty + entry.totals.private_hugetlb;
  }
  return bytes;
}

std::uint64_t control_bytes(const std::vector<SmapsEntry>& entries) {
  std::uint64_t bytes = 0;
  for (const SmapsEntry& entry : entries) {
    if (entry.name.starts_with(kControlMemfd)) bytes += entry.totals.rss;
  }
  return bytes;
}

Result<NodeMemory> read_node_memory(const PrivateNode& node) {
  const auto file = node::read_status_file(node.socket());
  if (!file) return std::unexpected(file.error());
  const auto status = node.status();
  if (!status) return std::unexpected(status.error());
  const auto server = read_smaps(static_cast<pid_t>(file->server_pid));
  if (!server) return std::unexpected(server.error());
  const auto keeper = read_smaps(static_cast<pid_t>(file->keeper_pid));
  if (!keeper) return std::unexpected(keeper.error());
  NodeMemory memory;
  memory.server_private = private_bytes(*server);
  memory.keeper_private = private_bytes(*keeper);
  // A page of the file that the server does not map is memory all the same.
  memory.control = std::max(
      control_bytes(*server),
      status_fields::number(status_fields::at(*status, "memory"), "control_resident_bytes"));
  for (const auto& client : status_fields::array_at(*status, "clients")) {
    memory.channels += status_fields::number(client, "channel_bytes");
  }
  return memory;
}

Result<NodeMemory> settled_node_memory(const PrivateNode& node) {
  const MonoNs limit = monotonic_ns() + kSettleLimit;
  auto last = read_node_memory(node);
  for (int quiet = 0; last && quiet < kQuietLooks;) {
    if (interrupted()) return fail(ErrorCode::kClosed, "interrupted");
    if (monotonic_ns() > limit) {
      return fail(ErrorCode::kDeadline, "the node's memory does not come to rest");
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(kLookNs));
    auto now = read_node_memory(node);
    if (!now) return now;
    quiet = now->control == last->control ? quiet + 1 : 0;
    last = now;
  }
  return last;
}

}  // namespace orlop::cli
