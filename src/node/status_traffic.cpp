// SPDX-License-Identifier: Apache-2.0
#include "node/status_traffic.h"

#include <array>
#include <cstddef>
#include <string>

#include "orlop/outcome.h"
#include "protocol/node/missed_keys.h"

namespace orlop::node {
namespace {

using Json = nlohmann::ordered_json;

double seconds(MonoNs ns) {
  return static_cast<double>(ns) / static_cast<double>(kNsPerSecond);
}

template <class Name, std::size_t kCount>
Json by_name(const std::array<std::uint64_t, kCount>& counts, std::size_t first = 0) {
  Json out = Json::object();
  for (std::size_t i = first; i < kCount; ++i)
    out[std::string(to_string(static_cast<Name>(i)))] = counts[i];
  return out;
}

// Reason 0 is "none": all keys hit.
Json misses_json(const segment::ReportCounters& c) {
  return by_name<MissReason>(c.misses, 1);
}

void add_counts(Json& to, const segment::ReportCounters& c) {
  to["gets"] = c.gets;
  to["keys_asked"] = c.keys_asked;
  to["keys_hit"] = c.keys_hit;
  to["bytes_read"] = c.bytes_read;
  to["puts"] = c.puts;
  to["keys_put"] = c.keys_put;
  to["keys_stored"] = c.keys_stored;
  to["bytes_written"] = c.bytes_written;
  to["misses"] = misses_json(c);
  to["outcomes"] = by_name<Outcome>(c.outcomes);
  to["mismatches"] = c.mismatches;
}

Json since(MonoNs then, MonoNs now) {
  if (then == 0) return nullptr;
  return seconds(now > then ? now - then : 0);
}

}  // namespace

Json latency_json(const segment::LatencyCounts& latency) {
  const auto us = [&](double percent) {
    return static_cast<double>(latency.percentile(percent)) / 1e3;
  };
  return {{"count", latency.count()}, {"p50_us", us(50)}, {"p95_us", us(95)}, {"p99_us", us(99)}};
}

void add_client_traffic(Json& to, const protocol::ClientGauges& client) {
  to["attached_seconds"] = seconds(client.attached_for);
  to["attaches"] = client.attaches;
  to["report_age_seconds"] = seconds(client.report_age);
  add_counts(to, client.traffic);
  to["open_read_plans"] = client.open_read_plans;
  to["open_handles"] = client.open_handles;
  to["oldest_read_plan_seconds"] = seconds(client.oldest_read_plan_age);
  to["get_latency"] = latency_json(client.traffic.get);
  to["put_latency"] = latency_json(client.traffic.put);
}

void add_namespace_traffic(Json& to, const runtime::NamespaceInfo& ns, MonoNs now) {
  const protocol::NamespaceTraffic& t = ns.traffic;
  to["readable_bytes"] = ns.readable_bytes;
  to["keys_offered"] = t.keys_offered;
  to["keys_stored"] = t.outcomes[static_cast<std::size_t>(Outcome::kStored)];
  to["outcomes"] = by_name<Outcome>(t.outcomes);
  to["evicted_slots"] = t.evicted_slots;
  to["touches"] = t.touches;
  to["missed"] = by_name<protocol::MissCause>(t.missed);
  to["seconds_since_put"] = since(t.last_put, now);
  to["seconds_since_hit"] = since(t.last_hit, now);
}

Json traffic_json(const runtime::NodeSnapshot& s) {
  Json out = Json::object();
  add_counts(out, s.traffic);
  out["missed"] = by_name<protocol::MissCause>(s.counters.missed);
  out["missed_lost"] = s.counters.missed_lost;
  const std::uint64_t evicted =
      s.counters.missed[static_cast<std::size_t>(protocol::MissCause::kEvicted)];
  // How much longer pages would have had to stay: the measure of a cache that is too small.
  out["missed_evicted_age_seconds"] =
      evicted == 0 ? Json(nullptr)
                   : Json(seconds(s.counters.missed_evicted_age) / static_cast<double>(evicted));
  out["get_latency"] = latency_json(s.traffic.get);
  out["put_latency"] = latency_json(s.traffic.put);
  return out;
}

}  // namespace orlop::node
