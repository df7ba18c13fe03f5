// SPDX-License-Identifier: Apache-2.0
#include "node/metrics_traffic.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "orlop/outcome.h"
#include "protocol/node/missed_keys.h"

namespace orlop::node {
namespace {

using prometheus::MetricType;

std::string name_of(auto value) {
  return std::string(to_string(value));
}

// The descriptor is JSON that the node wrote; whatever else it is has no model.
std::string model_of(const runtime::NamespaceInfo& ns) {
  const auto descriptor = nlohmann::json::parse(ns.text, nullptr, false);
  if (!descriptor.is_object() || !descriptor.contains("model")) return "";
  const auto& model = descriptor["model"];
  return model.is_string() ? model.get<std::string>() : "";
}

}  // namespace

void add_traffic(MetricFamilies& f, const runtime::NodeSnapshot& s) {
  const segment::ReportCounters& t = s.traffic;
  f.counter("orlop_gets_total", "Reads that clients planned.", t.gets);
  f.counter("orlop_get_keys_asked_total", "Keys of these.", t.keys_asked);
  f.counter("orlop_get_keys_hit_total", "Of these: pinned, in whole groups of a prefix.",
            t.keys_hit);
  f.counter("orlop_get_bytes_total", "Bytes of the pages that were transferred.", t.bytes_read);
  f.begin(MetricType::Counter, "orlop_get_misses_total",
          "Reads shorter than asked for, by the reason of the first miss.");
  for (std::size_t i = 1; i < t.misses.size(); ++i)
    f.add({{"reason", name_of(static_cast<MissReason>(i))}}, t.misses[i]);
  f.begin(MetricType::Counter, "orlop_missed_keys_total",
          "Keys that were not found, a sample: the first of a read, by cause.");
  for (std::size_t i = 0; i < s.counters.missed.size(); ++i)
    f.add({{"cause", name_of(static_cast<protocol::MissCause>(i))}}, s.counters.missed[i]);
  f.counter("orlop_missed_keys_lost_total", "Of the sample: lost before a cause was looked for.",
            s.counters.missed_lost);
  f.counter("orlop_missed_evicted_age_seconds_total",
            "Of cause evicted: time since they had left, added up.",
            metric_seconds(s.counters.missed_evicted_age));
  f.counter("orlop_get_mismatches_total", "Pages that clients found damaged.", t.mismatches);
  f.counter("orlop_puts_total", "Puts that clients began.", t.puts);
  f.counter("orlop_put_keys_total", "Keys of these.", t.keys_put);
  f.counter("orlop_put_keys_stored_total", "Of these: stored.", t.keys_stored);
  f.counter("orlop_put_bytes_total", "Bytes of these.", t.bytes_written);
  f.begin(MetricType::Counter, "orlop_put_key_outcomes_total",
          "What clients were told, by key and outcome; no_node included.");
  for (std::size_t i = 0; i < t.outcomes.size(); ++i)
    f.add({{"outcome", name_of(static_cast<Outcome>(i))}}, t.outcomes[i]);
  f.histogram("orlop_get_seconds", "Time to plan a read, of every eighth.", t.get);
  f.histogram("orlop_put_start_seconds", "Time until a put has its memory.", t.put);
}

void add_client_traffic(MetricFamilies& f, const runtime::NodeSnapshot& s) {
  using Gauges = protocol::ClientGauges;
  const auto each = [&](MetricType type, const char* name, const char* help, auto value) {
    f.begin(type, name, help);
    for (const runtime::ClientInfo& client : s.clients) {
      f.add({{"client", std::to_string(client.gauges.client.value)}, {"name", client.gauges.name}},
            value(client.gauges));
    }
  };
  each(MetricType::Counter, "orlop_client_get_keys_asked_total", "Keys a client asked for.",
       [](const Gauges& g) { return g.traffic.keys_asked; });
  each(MetricType::Counter, "orlop_client_get_keys_hit_total", "Of these: hit.",
       [](const Gauges& g) { return g.traffic.keys_hit; });
  each(MetricType::Counter, "orlop_client_get_bytes_total", "Bytes a client read.",
       [](const Gauges& g) { return g.traffic.bytes_read; });
  each(MetricType::Counter, "orlop_client_put_keys_total", "Keys a client offered.",
       [](const Gauges& g) { return g.traffic.keys_put; });
  each(MetricType::Counter, "orlop_client_put_keys_stored_total", "Keys a client stored.",
       [](const Gauges& g) { return g.traffic.keys_stored; });
  each(MetricType::Gauge, "orlop_client_open_read_plans", "Read plans a client holds.",
       [](const Gauges& g) { return g.open_read_plans; });
  each(MetricType::Gauge, "orlop_client_oldest_read_plan_seconds",
       "Age of a client's oldest read plan, 0: none.",
       [](const Gauges& g) { return metric_seconds(g.oldest_read_plan_age); });
  each(MetricType::Gauge, "orlop_client_report_age_seconds",
       "Since a client last told its numbers; above a few seconds it is stopped.",
       [](const Gauges& g) { return metric_seconds(g.report_age); });
  std::uint64_t pinned = 0;
  MonoNs read = 0, put = 0;
  for (const runtime::ClientInfo& client : s.clients) {
    pinned += client.gauges.pinned_bytes;
    read = std::max(read, client.gauges.oldest_read_plan_age);
    put = std::max(put, client.gauges.oldest_put_age);
  }
  f.gauge("orlop_pinned_bytes", "Bytes that clients pin, added up over clients.", pinned);
  f.gauge("orlop_oldest_read_plan_seconds", "Age of the oldest read plan of all, 0: none.",
          metric_seconds(read));
  f.gauge("orlop_oldest_put_seconds", "Age of the oldest open put of all, 0: none.",
          metric_seconds(put));
}

void add_namespaces(MetricFamilies& f, const runtime::NodeSnapshot& s) {
  using Info = runtime::NamespaceInfo;
  using Labels = MetricFamilies::Labels;
  std::vector<Labels> labels;
  for (const Info& ns : s.namespaces)
    labels.push_back({{"namespace", std::to_string(ns.row.value)}, {"model", model_of(ns)}});
  const auto each = [&](MetricType type, const char* name, const char* help, auto value) {
    f.begin(type, name, help);
    for (std::size_t i = 0; i < s.namespaces.size(); ++i) f.add(labels[i], value(s.namespaces[i]));
  };
  const auto each_of = [&](const char* name, const char* help, const char* label, auto counts,
                           auto text) {
    f.begin(MetricType::Counter, name, help);
    for (std::size_t i = 0; i < s.namespaces.size(); ++i) {
      const auto& values = counts(s.namespaces[i]);
      for (std::size_t v = 0; v < values.size(); ++v) {
        Labels all = labels[i];
        all.push_back({label, text(v)});
        f.add(std::move(all), values[v]);
      }
    }
  };
  each(MetricType::Gauge, "orlop_namespace_readable_bytes",
       "Memory of a namespace's readable slots.", [](const Info& ns) { return ns.readable_bytes; });
  each(MetricType::Counter, "orlop_namespace_keys_offered_total",
       "Keys offered to a namespace by put_start.",
       [](const Info& ns) { return ns.traffic.keys_offered; });
  each_of(
      "orlop_namespace_key_outcomes_total", "orlop_key_outcomes_total of a namespace.", "outcome",
      [](const Info& ns) { return ns.traffic.outcomes; },
      [](std::size_t i) { return name_of(static_cast<Outcome>(i)); });
  each(MetricType::Counter, "orlop_namespace_evicted_slots_total",
       "Slots of a namespace freed by eviction.",
       [](const Info& ns) { return ns.traffic.evicted_slots; });
  each(MetricType::Counter, "orlop_namespace_touches_total",
       "Pages of a namespace read, as far as told.",
       [](const Info& ns) { return ns.traffic.touches; });
  each_of(
      "orlop_namespace_missed_keys_total", "orlop_missed_keys_total of a namespace.", "cause",
      [](const Info& ns) { return ns.traffic.missed; },
      [](std::size_t i) { return name_of(static_cast<protocol::MissCause>(i)); });
}

}  // namespace orlop::node
