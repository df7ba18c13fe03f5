// SPDX-License-Identifier: Apache-2.0
#include "cli/status_view.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <string_view>

#include "base/units.h"
#include "cli/status_fields.h"

namespace orlop::cli {
namespace {

using namespace status_fields;

constexpr std::size_t kBarWidth = 32;
// Clients come in their hundreds; the first ones by pinned bytes say what matters.
constexpr std::size_t kShownClients = 20;
constexpr std::size_t kShownNamespaces = 20;

// 64-bit identities are decimal texts in JSON; people compare them as hexadecimal.
std::string identity(const Json& json, std::string_view field) {
  std::string digits = text(json, field);
  std::uint64_t value = 0;
  if (std::sscanf(digits.c_str(), "%" SCNu64, &value) != 1) return digits;
  char out[32];
  std::snprintf(out, sizeof out, "%016" PRIx64, value);
  return out;
}

std::string node_part(const Json& status, const std::string& socket, const Painter& paint) {
  const std::string state = text(status, "state");
  Table table("ll");
  table.row({"node", socket + "  " + paint(state == "ready" ? Ink::kGood : Ink::kWarning, state)})
      .row({"version", text(status, "version") + ", abi " + count(status, "abi")})
      .row({"up", duration(status, "uptime_seconds") + ", server " +
                      duration(status, "server_uptime_seconds") + ", " + count(status, "restarts") +
                      " restarts"})
      .row({"segment",
            identity(status, "segment_id") + ", incarnation " + identity(status, "incarnation")});
  const Json& last_end = at(status, "last_end");
  if (last_end.is_string() && !last_end.get<std::string>().empty()) {
    table.row({"last server ended", text(status, "last_end")});
  }
  return table.text();
}

std::string memory_part(const Json& memory, const Painter& paint) {
  const std::uint64_t whole = number(memory, "value_bytes");
  const std::uint64_t readable = number(memory, "readable_bytes");
  const std::uint64_t prepared = number(memory, "prepared_bytes");
  Table table("lrl");
  table
      .row({"values", bytes(memory, "value_bytes"),
            count(memory, "slabs") + " slabs of " + bytes(memory, "slab_bytes") + ", " +
                count(memory, "common_slabs") + " unassigned"})
      .row({"readable", bytes(memory, "readable_bytes"), percent(readable, whole)})
      .row({"prepared", bytes(memory, "prepared_bytes"), percent(prepared, whole)})
      .row({"control area", bytes(memory, "control_resident_bytes"), "resident"})
      .row({"huge pages", bytes(memory, "huge_bytes"), "of the values, proven"});
  std::string slots;
  const Json& by_state = at(memory, "slots");
  if (by_state.is_object()) {
    for (const auto& [state, unused] : by_state.items()) {
      slots += (slots.empty() ? "" : ", ") + count(by_state, state) + " " + masked(state);
    }
  }
  return paint(Ink::kBold, "memory") + "  " + bar(ratio(readable + prepared, whole), kBarWidth) +
         "\n" + table.text() + "  slots  " + slots + "\n";
}

std::string work_part(const Json& status, const Painter& paint) {
  const Json& counters = at(status, "counters");
  const Json& outcomes = at(counters, "outcomes");
  Table table("lrl");
  table
      .row({"keys offered", count(counters, "keys_offered"),
            "in " + count(counters, "put_starts") + " puts"})
      .row({"stored", count(outcomes, "stored"), bytes(counters, "commit_bytes")})
      .row({"existed", count(outcomes, "exists"), "in flight " + count(outcomes, "in_flight")})
      .row({"no space", count(outcomes, "no_space"),
            "over quota " + count(outcomes, "over_quota") + ", waited for space " +
                count(counters, "space_waits")})
      .row({"pages hit", count(counters, "touches"),
            "touches lost " + count(counters, "touches_lost")})
      .row({"evicted", count(counters, "slots_evicted"), bytes(counters, "bytes_evicted")})
      .row({"mismatches", count(counters, "mismatches_confirmed"),
            "false reports " + count(counters, "false_mismatches")});
  return paint(Ink::kBold, "since the server's start") + "\n" + table.text();
}

std::string clients_part(const Json& status, const Painter& paint) {
  const Json& list = at(status, "clients");
  std::string out = paint(Ink::kBold, "clients") + "  " + count(status, "attached") +
                    " attached, " + count(status, "open_puts") + " open puts\n";
  if (!list.is_array() || list.empty()) return out;
  std::vector<const Json*> clients;
  double oldest = 0;
  for (const Json& client : list) {
    clients.push_back(&client);
    oldest = std::max(oldest, seconds(client, "oldest_put_seconds"));
  }
  // The largest holders first, among equals in the node's order.
  std::ranges::sort(clients, [](const Json* a, const Json* b) {
    const auto held = [](const Json& client) {
      return number(client, "pinned_bytes") + number(client, "prepared_bytes");
    };
    const std::uint64_t of_a = held(*a), of_b = held(*b);
    return of_a != of_b ? of_a > of_b : a < b;
  });
  Table table("rlrlrrr");
  table.row({"id", "name", "pid", "state", "pinned", "prepared", "oldest put"});
  for (std::size_t i = 0; i < clients.size() && i < kShownClients; ++i) {
    const Json& client = *clients[i];
    const bool over = at(client, "over_pin_budget") == Json(true);
    table.row({count(client, "client"), text(client, "name"), std::to_string(number(client, "pid")),
               text(client, "state"),
               paint(over ? Ink::kWarning : Ink::kPlain, bytes(client, "pinned_bytes")),
               bytes(client, "prepared_bytes"), duration(client, "oldest_put_seconds")});
  }
  out += table.text();
  if (clients.size() > kShownClients) {
    out += "  and " + format_count(clients.size() - kShownClients) + " more (--json)\n";
  }
  if (oldest > 0) {
    out +=
        "  oldest plan of a put: " + format_duration_ns(static_cast<MonoNs>(oldest * 1e9)) + "\n";
  }
  return out;
}

std::string namespaces_part(const Json& status, const Painter& paint) {
  const Json& list = at(status, "namespaces");
  const std::size_t known = list.is_array() ? list.size() : 0;
  std::string out = paint(Ink::kBold, "namespaces") + "  " + format_count(known) + "\n";
  if (known == 0) return out;
  Table table("lllrr");
  table.row({"engine", "model", "dtype", "value", "pages"});
  for (std::size_t i = 0; i < known && i < kShownNamespaces; ++i) {
    const Json& descriptor = at(list[i], "descriptor");
    table.row({text(descriptor, "engine"), text(descriptor, "model"), text(descriptor, "dtype"),
               bytes(list[i], "value_len"), count(list[i], "slots")});
  }
  out += table.text();
  if (known > kShownNamespaces) {
    out += "  and " + format_count(known - kShownNamespaces) + " more (--json)\n";
  }
  return out;
}

}  // namespace

std::string status_text(const Json& status, const std::string& socket, const Painter& paint) {
  return node_part(status, socket, paint) + "\n" + memory_part(at(status, "memory"), paint) + "\n" +
         work_part(status, paint) + "\n" + clients_part(status, paint) + "\n" +
         namespaces_part(status, paint);
}

}  // namespace orlop::cli
