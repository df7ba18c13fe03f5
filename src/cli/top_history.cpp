// SPDX-License-Identifier: Apache-2.0
#include "cli/top_history.h"

#include <utility>

#include "cli/status_fields.h"

namespace orlop::cli {
namespace {

using namespace status_fields;

// Two statuses with the same text here are of one server: its counters only grow.
std::string server_of(const Json& status) {
  return text(status, "segment_id") + "/" + text(status, "incarnation") + "/" +
         count(status, "restarts");
}

std::optional<double> rate(const Json& before, const Json& now, const char* field, double seconds) {
  const auto first = known_number(before, field), last = known_number(now, field);
  if (!first || !last || *last < *first) return std::nullopt;
  return static_cast<double>(*last - *first) / seconds;
}

TopRates rates_between(const Json& before, const Json& now, double seconds) {
  const auto traffic = [&](const char* field) {
    return rate(at(before, "traffic"), at(now, "traffic"), field, seconds);
  };
  const auto counter = [&](const char* field) {
    return rate(at(before, "counters"), at(now, "counters"), field, seconds);
  };
  return {.seconds = seconds,
          .keys_asked = traffic("keys_asked"),
          .keys_hit = traffic("keys_hit"),
          .bytes_read = traffic("bytes_read"),
          .keys_stored = traffic("keys_stored"),
          .bytes_written = traffic("bytes_written"),
          .slots_evicted = counter("slots_evicted"),
          .bytes_evicted = counter("bytes_evicted")};
}

Json or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json rates_json(const TopRates& rates) {
  return {{"seconds", or_null(rates.seconds)},
          {"keys_asked_per_second", or_null(rates.keys_asked)},
          {"keys_hit_per_second", or_null(rates.keys_hit)},
          {"hit_rate", or_null(rates.hit_rate())},
          {"bytes_read_per_second", or_null(rates.bytes_read)},
          {"keys_stored_per_second", or_null(rates.keys_stored)},
          {"bytes_written_per_second", or_null(rates.bytes_written)},
          {"slots_evicted_per_second", or_null(rates.slots_evicted)},
          {"bytes_evicted_per_second", or_null(rates.bytes_evicted)}};
}

// The named fields, those that are there.
Json picked(const Json& from, std::initializer_list<const char*> fields) {
  Json out = Json::object();
  for (const char* field : fields) {
    if (!at(from, field).is_null()) out[field] = at(from, field);
  }
  return out;
}

}  // namespace

std::optional<double> TopRates::hit_rate() const {
  if (!keys_asked || !keys_hit || *keys_asked <= 0) return std::nullopt;
  return *keys_hit / *keys_asked;
}

void TopHistory::add(Json status, MonoNs taken) {
  const std::string server = server_of(status);
  const bool same = server == server_;
  if (!server_.empty() && !same) ++restarts_seen_;
  rates_ = node() && same && taken > taken_
               ? rates_between(status_, status, static_cast<double>(taken - taken_) / 1e9)
               : TopRates{};
  server_ = server;
  status_ = std::move(status);
  taken_ = taken;
  why_.clear();
}

void TopHistory::lose(std::string why) {
  status_ = nullptr;
  rates_ = {};
  why_ = std::move(why);
}

Json top_json(const TopHistory& history, const std::string& time) {
  const Json& status = history.status();
  Json out = {{"time", time},
              {"socket", history.socket()},
              {"node", history.node() ? text(status, "state") : "none"},
              {"why", history.why()},
              {"restarts_seen", history.restarts_seen()},
              {"rates", rates_json(history.rates())}};
  if (!history.node()) return out;
  out.update(
      picked(status, {"restarts", "uptime_seconds", "server_uptime_seconds", "draining", "attached",
                      "pinned_bytes", "oldest_read_plan_seconds", "oldest_put_seconds", "open_puts",
                      "waiting_puts", "memory", "step_latency", "namespaces", "clients"}));
  return out;
}

}  // namespace orlop::cli
