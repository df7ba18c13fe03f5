// SPDX-License-Identifier: Apache-2.0
#include "node/inspect_json.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "node/status_json.h"

namespace orlop::node {
namespace {

using Json = nlohmann::ordered_json;
using protocol::InspectQuestion;
namespace question = protocol::question;

// A hostile text comes back in the answer, but not whole.
std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text.substr(0, 40)) out += c >= ' ' && c < 127 ? c : '?';
  return out + (text.size() > 40 ? "...'" : "'");
}

class Parameters {
 public:
  Parameters(const QueryParameters& all, std::span<const std::string_view> allowed) : all_(all) {
    for (const auto& [name, value] : all) {
      if (std::ranges::find(allowed, name) == allowed.end()) {
        std::string known;
        for (const std::string_view one : allowed)
          known += (known.empty() ? "" : ", ") + std::string(one);
        refuse("parameter " + in_quotes(name) + " is unknown; known are: " + known);
      } else if (all.count(name) > 1) {
        refuse("parameter " + in_quotes(name) + " is given more than once");
      }
    }
  }
  std::optional<std::string> text(const char* name) const {
    const auto found = all_.find(name);
    return found == all_.end() ? std::nullopt : std::optional(found->second);
  }
  // Missing: nullopt.
  std::optional<std::uint32_t> number(const char* name) {
    const auto given = text(name);
    if (!given) return std::nullopt;
    std::uint32_t value = 0;
    const char* end = given->data() + given->size();
    const auto [stopped, error] = std::from_chars(given->data(), end, value);
    if (error != std::errc() || stopped != end) {
      refuse(std::string(name) + " is " + in_quotes(*given) + "; wanted is a number from 0 to " +
             std::to_string(std::numeric_limits<std::uint32_t>::max()));
    }
    return value;
  }
  std::uint32_t required_number(const char* name) {
    const auto value = number(name);
    if (!value) refuse(std::string("parameter '") + name + "' is missing");
    return value.value_or(0);
  }
  void refuse(std::string why) {
    if (why_.empty()) why_ = std::move(why);  // the first is said
  }
  // The question, unless something was refused.
  Result<InspectQuestion> done(InspectQuestion question) const {
    if (!why_.empty()) return fail(ErrorCode::kInvalidArgument, why_);
    return question;
  }

 private:
  const QueryParameters& all_;
  std::string why_;
};

Result<InspectQuestion> parse_sums(const QueryParameters& all) {
  constexpr std::string_view kAllowed[] = {"from"};
  Parameters p(all, kAllowed);
  return p.done(question::SlotSums{SlabId{p.number("from").value_or(0)}});
}

Result<InspectQuestion> parse_slots(const QueryParameters& all) {
  constexpr std::string_view kAllowed[] = {"after", "row", "limit"};
  Parameters p(all, kAllowed);
  question::SlotList list;
  list.after = SlotId{p.number("after").value_or(0)};
  if (const auto row = p.number("row")) list.row = NamespaceRow{*row};
  list.limit = p.number("limit").value_or(protocol::kInspectRows);
  if (list.limit == 0 || list.limit > protocol::kInspectRows) {
    p.refuse("limit is " + std::to_string(list.limit) + "; allowed are 1 to " +
             std::to_string(protocol::kInspectRows));
  }
  return p.done(list);
}

Result<InspectQuestion> parse_key(const QueryParameters& all) {
  constexpr std::string_view kAllowed[] = {"row", "id"};
  Parameters p(all, kAllowed);
  question::Key key;
  key.row = NamespaceRow{p.required_number("row")};
  const auto text = p.text("id");
  const auto id = parse_key_id(text.value_or(""));
  if (!id) p.refuse("id is " + in_quotes(text.value_or("")) + "; wanted are 32 hex digits");
  key.key = id.value_or(KeyId{});
  return p.done(key);
}

Result<InspectQuestion> parse_client(const QueryParameters& all) {
  constexpr std::string_view kAllowed[] = {"id"};
  Parameters p(all, kAllowed);
  return p.done(question::Client{ClientId{p.required_number("id")}});
}

// ---- JSON ----

double seconds(MonoNs ns) {
  return static_cast<double>(ns) / static_cast<double>(kNsPerSecond);
}
template <class Id>
Json id_or_null(const std::optional<Id>& id) {
  return id ? Json(id->value) : Json(nullptr);
}
Json states_json(const protocol::SlotSums::States& states) {
  Json out = Json::object();
  for (int i = 0; i < segment::kSlotStateCount; ++i) out[slot_state_name(i)] = states.slots[i];
  return out;
}
Json put_json(PutId put) {
  return {{"client", owner_of(put).value}, {"sequence", put.value & kMaxPutSequence}};
}
std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

Json slot_json(const protocol::SlotFacts& facts) {
  const segment::GroupPlace& place = facts.fields.group;
  return {{"slot", facts.slot.value},
          {"generation", facts.word.generation.value},
          {"state", slot_state_name(static_cast<int>(facts.word.state))},
          {"doomed", facts.word.doomed()},
          {"row", id_or_null(facts.row)},
          {"id", key_id_text(facts.fields.key)},
          {"value_len", facts.fields.value_len},
          {"slot_bytes", facts.slot_bytes},
          {"put", put_json(facts.fields.put)},
          {"group", place.group_number},
          {"group_index", place.index},
          {"group_length", place.length},
          {"checksum", hex(facts.checksum)},
          {"seconds_since_access", seconds(facts.since_access)}};
}

Json to_json(const protocol::SlotSums& sums) {
  Json classes = Json::array(), namespaces = Json::array();
  for (const auto& one : sums.classes) {
    classes.push_back({{"slot_bytes", one.slot_pages * segment::kMinSlotBytes},
                       {"slabs", one.slabs},
                       {"unused_slabs", one.unused_slabs},
                       {"free_runs", one.free_runs},
                       {"longest_free_run", one.longest_free_run},
                       {"slots", states_json(one)},
                       {"doomed", one.doomed}});
  }
  for (const auto& one : sums.namespaces) {
    namespaces.push_back({{"row", id_or_null(one.row)},
                          {"slots", states_json(one)},
                          {"doomed", one.doomed},
                          {"slot_bytes", one.slot_bytes},
                          {"value_bytes", one.value_bytes}});
  }
  return {{"classes", classes},
          {"namespaces", namespaces},
          {"common_slabs", sums.common_slabs},
          {"next", id_or_null(sums.next)}};
}

Json to_json(const protocol::SlotList& list) {
  Json slots = Json::array();
  for (const auto& facts : list.slots) slots.push_back(slot_json(facts));
  return {{"slots", slots}, {"next", id_or_null(list.next)}};
}

Json to_json(const protocol::KeyFacts& facts) {
  Json also_in = Json::array(), members = Json::array(), pinned_by = Json::array();
  for (const NamespaceRow row : facts.also_in) also_in.push_back(row.value);
  Json out = {{"present", facts.slot.has_value() && facts.slot->word.readable()},
              {"also_in", also_in}};
  if (facts.left) {
    out["left"] = {{"cause", to_string(facts.left->cause)},
                   {"seconds_ago", seconds(facts.left->age)}};
  }
  if (!facts.slot) return out;
  for (const SlotId member : facts.members) members.push_back(member.value);
  for (const auto& holder : facts.holders.clients) {
    pinned_by.push_back(
        {{"client", holder.client.value}, {"name", holder.name}, {"pages", holder.pages}});
  }
  out.update(slot_json(*facts.slot));
  out["members"] = members;
  out["member_count"] = facts.member_count;
  out["parent"] = nullptr;
  if (facts.parent) {
    out["parent"] = {{"slot", facts.parent->slot.value}, {"present", facts.parent->present}};
    if (facts.parent->present) out["parent"]["id"] = key_id_text(facts.parent->key);
  }
  out["writer"] = {{"client", facts.writer.value}, {"name", facts.writer_name}};
  out["put_age_seconds"] = seconds(facts.put_age);
  out["pinned_by"] = pinned_by;
  out["checked_by_node"] = facts.node_pinned;
  return out;
}

Json to_json(const protocol::ClientFacts& facts) {
  Json puts = Json::array(), pins = Json::array(), pages = Json::array();
  for (const auto& put : facts.puts) {
    puts.push_back({{"put", put_json(put.put)},
                    {"row", id_or_null(put.row)},
                    {"age_seconds", seconds(put.age)},
                    {"open_slots", put.open_slots},
                    {"open_groups", put.open_groups}});
  }
  for (const auto& pin : facts.held.by_row)
    pins.push_back({{"row", id_or_null(pin.row)}, {"pages", pin.pages}, {"bytes", pin.bytes}});
  for (const auto& page : facts.held.some) {
    Json one = {
        {"slot", page.slot.value}, {"generation", page.generation.value}, {"valid", page.valid}};
    if (page.valid) {
      one["row"] = id_or_null(page.row);
      one["id"] = key_id_text(page.key);
      one["state"] = slot_state_name(static_cast<int>(page.state));
    }
    pages.push_back(std::move(one));
  }
  return {{"client", facts.client.value},
          {"name", facts.name},
          {"dead", facts.dead},
          {"held_by_fork", facts.held_by_fork},
          {"lost", facts.lost},
          {"prepared_slots", facts.prepared_slots},
          {"prepared_bytes", facts.prepared_bytes},
          {"open_puts", facts.open_puts},
          {"waiting_puts", facts.waiting_puts},
          {"held_pages", facts.held.pages},
          {"held_bytes", facts.held.bytes},
          {"false_mismatches", facts.false_mismatches},
          {"puts", puts},
          {"held_by_namespace", pins},
          {"pages", pages}};
}

// Parts of other answers; nobody asks for them over HTTP.
Json to_json(const protocol::Holders&) {
  return Json::object();
}
Json to_json(const protocol::Held&) {
  return Json::object();
}

Json to_json(const Error& error) {
  return {{"error", error.message}};
}

}  // namespace

std::string key_id_text(const KeyId& key) {
  return hex(key.hi) + hex(key.lo);
}

std::optional<KeyId> parse_key_id(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  KeyId key;
  for (auto [half, at] : {std::pair(&key.hi, 0), std::pair(&key.lo, 16)}) {
    const char* begin = text.data() + at;
    const auto [stopped, error] = std::from_chars(begin, begin + 16, *half, 16);
    // from_chars takes a sign for no digit, so what it stops at is what is wrong.
    if (error != std::errc() || stopped != begin + 16) return std::nullopt;
  }
  return key;
}

Result<InspectQuestion> parse_inspection(std::string_view what, const QueryParameters& parameters) {
  if (what == "sums") return parse_sums(parameters);
  if (what == "slots") return parse_slots(parameters);
  if (what == "key") return parse_key(parameters);
  if (what == "client") return parse_client(parameters);
  return fail(ErrorCode::kInvalidArgument,
              in_quotes(what) + " cannot be inspected; known are: sums, slots, key, client");
}

std::string inspection_json(const protocol::InspectAnswer& answer) {
  const Json out = std::visit([](const auto& one) { return to_json(one); }, answer);
  // Names are what clients say: bytes that are no UTF-8 must not throw.
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace orlop::node
