// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect_view.h"

#include <algorithm>

#include "cli/json_parts.h"
#include "cli/status_fields.h"

namespace orlop::cli {
namespace {

using namespace status_fields;
using Namespaces = std::vector<NamedNamespace>;

constexpr std::size_t kShownMembers = 12;
constexpr std::size_t kShownPages = 20;

std::string title_of(const Json& row, const Namespaces& all) {
  if (!row.is_number_unsigned()) return "flushed, not yet given back";
  const auto number = row.get<std::uint64_t>();
  for (const NamedNamespace& ns : all)
    if (ns.row.value == number) return ns.title();
  return "namespace " + std::to_string(number);
}

std::string short_title(const Json& row) {
  return row.is_number_unsigned() ? std::to_string(row.get<std::uint64_t>()) : "flushed";
}

// "1,024 committed, 3 free": the states that are there.
std::string states(const Json& slots) {
  std::string out;
  if (!slots.is_object()) return "-";
  for (const auto& [state, unused] : slots.items()) {
    if (number(slots, state) == 0) continue;
    out += (out.empty() ? "" : ", ") + count(slots, state) + " " + masked(state);
  }
  return out.empty() ? "none" : out;
}

std::string flag_text(const Json& json, std::string_view field) {
  const Json& value = at(json, field);
  return !value.is_boolean() ? "-" : (value.get<bool>() ? "yes" : "no");
}
bool is_true(const Json& json, std::string_view field) {
  const Json& value = at(json, field);
  return value.is_boolean() && value.get<bool>();
}

std::string put_text(const Json& put) {
  return "number " + count(put, "sequence") + " of client " + count(put, "client");
}

std::string listed(const Json& array, std::size_t most) {
  std::string out;
  std::size_t shown = 0;
  for (const Json& one : array) {
    if (shown++ == most) return out + " ...";
    out += (out.empty() ? "" : " ") + masked(json_text(one, -1));
  }
  return out.empty() ? "none" : out;
}

std::string state_text(const Json& facts, const Painter& paint) {
  const std::string state = text(facts, "state");
  const bool readable = state == "committed" || state == "local_ready";
  return paint(readable ? Ink::kGood : Ink::kWarning,
               state + (is_true(facts, "doomed") ? ", doomed" : ""));
}

}  // namespace

std::string namespaces_text(const Namespaces& all, const Painter& paint) {
  if (all.empty()) return "no namespace is open\n";
  std::string out;
  for (const NamedNamespace& ns : all) {
    const Json& f = ns.facts;
    const std::uint64_t slot_bytes = (number(f, "value_len") + 4'095) / 4'096 * 4'096;
    Table table("ll");
    table.row({"digest", ns.digest})
        .row({"family", ns.family_digest})
        .row({"index", count(f, "index") + " (changes at a flush)"})
        .row({"pages", count(f, "slots") + ", " + format_bytes(number(f, "slots") * slot_bytes) +
                           " in slots of " + format_bytes(slot_bytes)});
    const Json& descriptor = at(f, "descriptor");
    if (descriptor.is_object()) {
      for (const auto& [field, value] : descriptor.items())
        table.row({masked(field),
                   masked(value.is_string() ? value.get<std::string>() : json_text(value, -1))});
    }
    out += paint(Ink::kBold, ns.title()) + "\n" + table.text();
  }
  return out;
}

std::string slot_sums_text(const Json& sums, const Namespaces& all, const Painter& paint) {
  std::string out = paint(Ink::kBold, "by slot size") + "\n";
  Table classes("rrrrrl");
  classes.row({"slot", "slabs", "unused", "free runs", "longest", "slots"});
  for (const Json& one : array_at(sums, "classes")) {
    classes.row({bytes(one, "slot_bytes"), count(one, "slabs"), count(one, "unused_slabs"),
                 count(one, "free_runs"), count(one, "longest_free_run"),
                 states(at(one, "slots")) +
                     (number(one, "doomed") == 0 ? "" : "; doomed " + count(one, "doomed"))});
  }
  out += array_at(sums, "classes").empty() ? "  no slab has a size yet\n" : classes.text();
  out += "  " + count(sums, "common_slabs") + " slabs without a size\n";
  out += paint(Ink::kBold, "by namespace") + "\n";
  Table namespaces("lrrl");
  namespaces.row({"", "memory", "values", "slots"});
  for (const Json& one : array_at(sums, "namespaces")) {
    namespaces.row({title_of(at(one, "row"), all), bytes(one, "slot_bytes"),
                    bytes(one, "value_bytes"), states(at(one, "slots"))});
  }
  return out +
         (array_at(sums, "namespaces").empty() ? "  every slot is free\n" : namespaces.text());
}

std::string slot_list_text(const Json& slots) {
  if (slots.empty()) return "no such slot is in use\n";
  Table table("rrllrrll");
  table.row({"slot", "generation", "state", "namespace", "value", "client", "id", "accessed"});
  for (const Json& one : slots) {
    table.row({std::to_string(number(one, "slot")), std::to_string(number(one, "generation")),
               text(one, "state") + (is_true(one, "doomed") ? ", doomed" : ""),
               short_title(at(one, "row")), bytes(one, "value_len"),
               std::to_string(number(at(one, "put"), "client")), text(one, "id"),
               duration(one, "seconds_since_access") + " ago"});
  }
  return table.text();
}

namespace {

std::string absent_key_text(const Json& facts, const Namespaces& all, const Painter& paint) {
  std::string out = paint(Ink::kWarning, "not present") + "\n";
  const Json& left = at(facts, "left");
  if (left.is_object()) {
    out += "  it left " + duration(left, "seconds_ago") + " ago: " + text(left, "cause") + "\n";
  } else {
    out += "  the node does not remember that it left: never written, or long ago\n";
  }
  for (const Json& row : array_at(facts, "also_in"))
    out += "  the same page is in " + title_of(row, all) + "\n";
  return out;
}

std::string parent_text(const Json& parent) {
  if (!parent.is_object()) return "none: the first page of its prefix";
  const std::string slot = "slot " + std::to_string(number(parent, "slot"));
  return is_true(parent, "present") ? slot + ", id " + text(parent, "id") : slot + ", has left";
}

}  // namespace

std::string key_text(const Json& facts, const NamedNamespace& ns, const Namespaces& all,
                     const Painter& paint) {
  std::string out = ns.title() + "\n  id " + text(facts, "id") + "\n";
  if (!at(facts, "slot").is_number()) return out + absent_key_text(facts, all, paint);
  const Json& writer = at(facts, "writer");
  const std::string name = text(writer, "name");
  Table table("ll");
  table.row({"state", state_text(facts, paint)})
      .row({"slot", std::to_string(number(facts, "slot")) + ", generation " +
                        std::to_string(number(facts, "generation")) + ", " +
                        bytes(facts, "slot_bytes")})
      .row({"value", bytes(facts, "value_len") + ", checksum " + text(facts, "checksum")})
      .row({"accessed", duration(facts, "seconds_since_access") + " ago, in steps of 4 s"})
      .row({"put", put_text(at(facts, "put")) +
                       (name.empty() || name == "-" ? ", which has gone" : " '" + name + "'")});
  if (seconds(facts, "put_age_seconds") > 0)
    table.row({"put is open", "for " + duration(facts, "put_age_seconds")});
  table
      .row({"group", "member " + std::to_string(number(facts, "group_index") + 1) + " of " +
                         count(facts, "member_count") + ", slots " +
                         listed(array_at(facts, "members"), kShownMembers)})
      .row({"parent", parent_text(at(facts, "parent"))});
  std::string holders;
  for (const Json& one : array_at(facts, "pinned_by")) {
    holders += (holders.empty() ? "" : "; ") + std::string("client ") +
               std::to_string(number(one, "client")) + " '" + text(one, "name") + "', " +
               count(one, "pages") + (number(one, "pages") == 1 ? " time" : " times");
  }
  table.row({"pinned by", holders.empty() ? "nobody" : holders});
  if (is_true(facts, "checked_by_node")) table.row({"node", "is checking its checksum"});
  out += table.text();
  for (const Json& row : array_at(facts, "also_in"))
    out += "  the same page is in " + title_of(row, all) + "\n";
  return out;
}

std::string client_text(const Json& facts, const Json& in_status, const Namespaces& all,
                        const Painter& paint) {
  std::string out = paint(Ink::kBold, "client " + std::to_string(number(facts, "client")) + " '" +
                                          text(facts, "name") + "'") +
                    "\n";
  Table table("ll");
  table.row({"process", std::to_string(number(in_status, "pid")) + ", " + text(in_status, "state")})
      .row({"held by a fork", flag_text(facts, "held_by_fork")})
      .row({"reads", count(facts, "held_pages") + " pages, " + bytes(facts, "held_bytes")})
      .row({"writes", count(facts, "open_puts") + " open puts, " + count(facts, "waiting_puts") +
                          " waiting for memory, " + count(facts, "prepared_slots") + " slots, " +
                          bytes(facts, "prepared_bytes")})
      .row({"false mismatches", count(facts, "false_mismatches")});
  out += table.text();
  if (!array_at(facts, "held_by_namespace").empty()) {
    Table pins("lrr");
    for (const Json& one : array_at(facts, "held_by_namespace"))
      pins.row(
          {title_of(at(one, "row"), all), count(one, "pages") + " pages", bytes(one, "bytes")});
    out += "  pages held\n" + pins.text(4);
  }
  if (!array_at(facts, "puts").empty()) {
    Table puts("rrrl");
    for (const Json& one : array_at(facts, "puts")) {
      puts.row({"put " + count(at(one, "put"), "sequence"), count(one, "open_slots") + " slots",
                "open " + duration(one, "age_seconds"), title_of(at(one, "row"), all)});
    }
    out += "  open puts\n" + puts.text(4);
  }
  const Json& pages = array_at(facts, "pages");
  Table held("rrll");
  for (std::size_t i = 0; i < std::min(pages.size(), kShownPages); ++i) {
    held.row({"slot " + std::to_string(number(pages[i], "slot")),
              "generation " + std::to_string(number(pages[i], "generation")),
              is_true(pages[i], "valid") ? text(pages[i], "state") : "no longer this page",
              is_true(pages[i], "valid") ? text(pages[i], "id") : ""});
  }
  if (!pages.empty()) out += "  first pages held\n" + held.text(4);
  return out;
}

}  // namespace orlop::cli
