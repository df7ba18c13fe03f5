// SPDX-License-Identifier: Apache-2.0
// The parts of /status.json about hits and misses: of one client, of one namespace, of all. Pure.
//
// Counts of a client are what it reports itself, at most a second old (segment/client_report.h).
// `misses` are gets by the reason of their first miss; `missed` are sampled keys by cause. Of a
// namespace `keys_stored` and `outcomes` are the node's own.
#pragma once

#include <nlohmann/json.hpp>

#include "runtime/snapshot.h"

namespace orlop::node {

// Adds the members to `to`, an object.
void add_client_traffic(nlohmann::ordered_json& to, const protocol::ClientGauges& client);
// now: of the snapshot. seconds_since_put and seconds_since_hit are null before the first.
void add_namespace_traffic(nlohmann::ordered_json& to, const runtime::NamespaceInfo& ns,
                           MonoNs now);
// Sum over all clients since this server's start, those that left included.
nlohmann::ordered_json traffic_json(const runtime::NodeSnapshot& snapshot);
// Percentiles are within a factor of two (segment/report_counters.h).
nlohmann::ordered_json latency_json(const segment::LatencyCounts& latency);

}  // namespace orlop::node
