// SPDX-License-Identifier: Apache-2.0
// What the server's thread tells about itself to other threads (admin HTTP): a copy, made between
// two rounds of its loop, so that the machine stays single-threaded.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "orlop/error.h"
#include "protocol/attach/frames.h"
#include "protocol/node/node_machine.h"
#include "runtime/latest_port.h"

namespace orlop::runtime {

// Request codes begin at 1; index 0 counts nothing.
inline constexpr std::size_t kRequestCodes =
    static_cast<std::size_t>(protocol::kLastRequestCode) + 1;
inline constexpr std::size_t kErrorCodes = static_cast<std::size_t>(ErrorCode::kClosed) + 1;
// Stable lower-case name ("put_start"), for metrics.
std::string_view to_string(protocol::RequestCode code);

struct LoopCounters {  // since this server's start
  std::uint64_t requests[kRequestCodes] = {};
  std::uint64_t refused[kErrorCodes] = {};  // attaches and resumes, by the refusal's code
  std::uint64_t malformed = 0;              // clients closed for what they wrote into their channel
  std::uint64_t doorbells = 0;              // sleeping clients woken
  std::uint64_t sleeps = 0, spins_hit = 0;  // times the loop slept; times spinning saved a sleep
  segment::LatencyCounts steps;             // time a request takes in this thread, queueing apart
};

struct ClientInfo {
  protocol::ClientGauges gauges;
  std::uint32_t pid = 0;
  bool connected = false;
  std::uint64_t channel_bytes = 0;  // resident
};
struct NamespaceInfo {
  NamespaceRow row;
  NamespaceIndex index;
  std::uint32_t value_len = 0;
  std::string text;
  std::uint64_t slots = 0;
  std::uint64_t readable_bytes = 0;
  protocol::NamespaceTraffic traffic;
};

struct NodeSnapshot {
  SegmentId segment;
  Incarnation incarnation;
  bool cold = false, stopping = false;
  std::uint32_t restarts = 0, keeper_pid = 0, server_pid = 0;
  std::string last_end;
  protocol::UpgradeFrame upgrade;  // what became of the last SIGHUP
  MonoNs taken = 0, keeper_started = 0, server_started = 0, recovery_ns = 0;
  std::uint64_t value_bytes = 0, slab_bytes = 0, control_resident_bytes = 0,
                value_resident_bytes = 0;
  std::uint64_t touched_bytes = 0, huge_bytes = 0;       // of the value area, at its creation
  std::vector<std::pair<int, std::uint64_t>> placement;  // bytes per memory node, at its creation
  std::uint64_t attached = 0, known = 0, handshakes = 0;
  protocol::RecoveryReport recovery;
  protocol::NodeCounters counters;
  protocol::NodeGauges gauges;
  std::vector<ClientInfo> clients;
  std::vector<NamespaceInfo> namespaces;
  segment::ReportCounters traffic;  // of all clients since this server's start
  LoopCounters loop;
};

struct NodeHealth {
  bool stopping = false, draining = false;
};

using SnapshotPort = LatestPort<NodeSnapshot>;
using HealthPort = LatestPort<NodeHealth>;

}  // namespace orlop::runtime
