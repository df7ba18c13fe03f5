// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_namespaces.h"

#include <algorithm>
#include <optional>
#include <set>

#include "cli/json_parts.h"
#include "cli/status_fields.h"
#include "protocol/descriptor/fields.h"

namespace orlop::cli {
namespace {

using namespace status_fields;

// More would hide what differs.
constexpr std::size_t kShownValues = 16;

// Namespaces of one family, on one side of the split.
struct Group {
  const Json* first = nullptr;  // a descriptor of it: the family's fields are those of all
  std::vector<const Json*> members;
};

std::string value_text(const Json& value) {
  if (value.is_null()) return "not set";
  if (value.is_string()) return "\"" + masked(value.get<std::string>()) + "\"";
  return masked(json_text(value, -1));
}

bool same_family(const Json& a, const Json& b) {
  return std::ranges::all_of(descriptor_fields(), [&](const DescriptorField& field) {
    return field.rank || at(a, field.name) == at(b, field.name);
  });
}

bool is_written(const Json& ns) {
  return number(ns, "keys_stored") + number(ns, "readable_bytes") + number(ns, "slots") > 0;
}

bool is_asked_in_vain(const Json& ns) {
  const Json& missed = at(ns, "missed");
  if (number(missed, "other_namespace") > 0) return true;
  return sum_of(missed) > 0 && number(ns, "touches") == 0 && !is_written(ns);
}

template <class Chosen>
std::vector<Group> groups_of(const Json& namespaces, Chosen chosen) {
  std::vector<Group> groups;
  for (const Json& ns : namespaces) {
    const Json& descriptor = at(ns, "descriptor");
    if (!descriptor.is_object() || !chosen(ns)) continue;
    const auto found = std::ranges::find_if(
        groups, [&](const Group& group) { return same_family(*group.first, descriptor); });
    if (found == groups.end()) {
      groups.push_back({&descriptor, {&ns}});
    } else {
      found->members.push_back(&ns);
    }
  }
  return groups;
}

// The values of a rank coordinate over a group, "{0, 1}".
std::set<std::uint64_t> values_of(const Group& group, std::string_view field) {
  std::set<std::uint64_t> values;
  for (const Json* ns : group.members) values.insert(number(at(*ns, "descriptor"), field));
  return values;
}

std::string set_text(const std::set<std::uint64_t>& values) {
  std::string text;
  std::size_t shown = 0;
  for (const std::uint64_t value : values) {
    if (shown++ == kShownValues) return "{" + text + ", ...}";
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  }
  return "{" + text + "}";
}

std::vector<std::string> differences_of(const Group& asked, const Group& written) {
  std::vector<std::string> out;
  for (const DescriptorField& field : descriptor_fields()) {
    const std::string name(field.name);
    if (field.rank) {
      const auto of_asked = values_of(asked, name), of_written = values_of(written, name);
      if (of_asked == of_written) continue;
      out.push_back(name + " " + set_text(of_asked) + " vs " + set_text(of_written));
    } else {
      const Json& of_asked = at(*asked.first, name);
      const Json& of_written = at(*written.first, name);
      if (of_asked == of_written) continue;
      out.push_back(name + " " + value_text(of_asked) + " vs " + value_text(of_written));
    }
  }
  return out;
}

std::string name_of(const Group& group) {
  std::string rows;
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    if (i == kShownValues) {
      rows += ", ...";
      break;
    }
    rows += (rows.empty() ? "" : ", ") + count(*group.members[i], "row");
  }
  return (group.members.size() == 1 ? "namespace " : "namespaces ") + rows + " (" +
         text(*group.first, "engine") + ", model " + text(*group.first, "model") + ")";
}

// Of several equally near ones the first.
std::optional<std::size_t> nearest(const Group& asked, const std::vector<Group>& written) {
  std::optional<std::size_t> best;
  std::size_t fewest = 0;
  for (std::size_t i = 0; i < written.size(); ++i) {
    const std::size_t differing = differences_of(asked, written[i]).size();
    // The asked ones themselves: a namespace that is both written and asked in vain.
    if (differing == 0) continue;
    if (!best || differing < fewest) {
      best = i;
      fewest = differing;
    }
  }
  return best;
}

}  // namespace

std::vector<NamespaceSplit> find_namespace_splits(const Json& namespaces) {
  std::vector<NamespaceSplit> splits;
  if (!namespaces.is_array()) return splits;
  const std::vector<Group> written = groups_of(namespaces, is_written);
  for (const Group& asked : groups_of(namespaces, is_asked_in_vain)) {
    const auto other = nearest(asked, written);
    if (!other) continue;
    NamespaceSplit split{.asked = name_of(asked),
                         .written = name_of(written[*other]),
                         .differences = differences_of(asked, written[*other])};
    for (const Json* ns : asked.members) {
      split.misses += sum_of(at(*ns, "missed"));
      split.elsewhere += number(at(*ns, "missed"), "other_namespace");
    }
    for (const Json* ns : written[*other].members) split.pages += number(*ns, "slots");
    splits.push_back(std::move(split));
  }
  return splits;
}

std::optional<NearestNamespace> nearest_namespace(const Json& namespaces, const Json& descriptor) {
  const Json wanted_row = {{"descriptor", descriptor}};
  const Group wanted{&at(wanted_row, "descriptor"), {&wanted_row}};
  std::optional<NearestNamespace> best;
  if (!namespaces.is_array()) return best;
  for (const Json& ns : namespaces) {
    if (!at(ns, "descriptor").is_object()) continue;
    const Group known{&at(ns, "descriptor"), {&ns}};
    auto differences = differences_of(wanted, known);
    if (best && differences.size() >= best->differences.size()) continue;
    best = NearestNamespace{name_of(known), std::move(differences)};
  }
  return best;
}

Json without_doctor(Json status) {
  // Runs so far. Its page is counted as stored at once; reads reach the node's figures later.
  std::uint64_t runs = 0;
  Json others = Json::array();
  for (const Json& ns : array_at(status, "namespaces")) {
    if (text(at(ns, "descriptor"), "engine") != kDoctorEngine) {
      others.push_back(ns);
      continue;
    }
    runs += number(ns, "keys_stored");
  }
  const auto subtract = [&](const char* part, const char* field) {
    const auto value = known_number(at(status, part), field);
    if (value) status[part][field] = *value - std::min(*value, runs);
  };
  for (const char* field : {"gets", "keys_asked", "keys_hit", "puts", "keys_put", "keys_stored"}) {
    subtract("traffic", field);
  }
  for (const char* field : {"keys_offered", "clients_attached", "removed_slots"}) {
    subtract("counters", field);
  }
  if (at(status, "namespaces").is_array()) status["namespaces"] = std::move(others);
  return status;
}

}  // namespace orlop::cli
