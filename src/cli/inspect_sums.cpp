// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect_sums.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "cli/status_fields.h"

namespace orlop::cli {
namespace {

using status_fields::Json;

void add_numbers(Json& to, const Json& from, const std::string& identity) {
  if (!from.is_object() || !(to.is_object() || to.is_null())) return;  // a node that is wrong
  for (const auto& [field, value] : from.items()) {
    Json& sum = to[field];
    if (field == identity || sum.is_null()) {
      sum = value;
    } else if (value.is_object()) {
      add_numbers(sum, value, identity);
    } else if (value.is_number_unsigned() && sum.is_number_unsigned()) {
      const auto a = sum.get<std::uint64_t>(), b = value.get<std::uint64_t>();
      sum = field == "longest_free_run" ? std::max(a, b) : a + b;
    } else {
      sum = value;
    }
  }
}

// Rows of the two lists with the same identity become one.
void add_list(Json& to, const Json& from, const std::string& identity) {
  for (const Json& row : from) {
    const Json& own = status_fields::at(row, identity);
    const auto same = std::ranges::find_if(
        to, [&](const Json& known) { return status_fields::at(known, identity) == own; });
    if (same == to.end()) {
      to.push_back(row);
    } else {
      add_numbers(*same, row, identity);
    }
  }
}

}  // namespace

void add_sums(Json& to, const Json& from) {
  if (!to.is_object()) {
    to = {{"classes", Json::array()},
          {"namespaces", Json::array()},
          {"common_slabs", std::uint64_t{0}},
          {"next", nullptr}};
  }
  add_list(to["classes"], status_fields::array_at(from, "classes"), "slot_bytes");
  add_list(to["namespaces"], status_fields::array_at(from, "namespaces"), "row");
  to["common_slabs"] =
      status_fields::number(to, "common_slabs") + status_fields::number(from, "common_slabs");
  to["next"] = status_fields::at(from, "next");
}

}  // namespace orlop::cli
