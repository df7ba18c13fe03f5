// SPDX-License-Identifier: Apache-2.0
#include "cli/status_fields.h"

#include <algorithm>

#include "base/units.h"

namespace orlop::cli::status_fields {
namespace {

std::optional<std::uint64_t> as_number(const Json& value) {
  if (!value.is_number_integer() || value < 0) return std::nullopt;
  return value.get<std::uint64_t>();
}

}  // namespace

const Json& at(const Json& json, std::string_view field) {
  static const Json nothing;
  const auto found = json.is_object() ? json.find(field) : json.end();
  return found == json.end() ? nothing : *found;
}

const Json& array_at(const Json& json, std::string_view field) {
  static const Json empty = Json::array();
  const Json& value = at(json, field);
  return value.is_array() ? value : empty;
}

std::optional<std::uint64_t> known_number(const Json& json, std::string_view field) {
  return as_number(at(json, field));
}

std::optional<double> known_seconds(const Json& json, std::string_view field) {
  const Json& value = at(json, field);
  if (!value.is_number()) return std::nullopt;
  return std::max(0.0, value.get<double>());
}

std::uint64_t number(const Json& json, std::string_view field) {
  return known_number(json, field).value_or(0);
}

double seconds(const Json& json, std::string_view field) {
  return known_seconds(json, field).value_or(0);
}

std::uint64_t sum_of(const Json& object) {
  std::uint64_t sum = 0;
  if (!object.is_object()) return 0;
  for (const auto& [name, value] : object.items()) {
    sum += as_number(value).value_or(0);
  }
  return sum;
}

std::uint64_t counter(const Json& status, std::string_view name) {
  return number(at(status, "counters"), name);
}

bool is_draining(const Json& status) {
  return at(status, "draining") == Json(true) || at(status, "state") == Json("draining");
}

std::string count(const Json& json, std::string_view field) {
  const auto value = known_number(json, field);
  return value ? format_count(*value) : "-";
}

std::string bytes(const Json& json, std::string_view field) {
  const auto value = known_number(json, field);
  return value ? format_bytes(*value) : "-";
}

std::string duration(const Json& json, std::string_view field) {
  const auto value = known_seconds(json, field);
  return value ? duration_text(*value) : "-";
}

std::string duration_text(double seconds) {
  constexpr double kLongest = 1e10;  // three hundred years; more does not fit into nanoseconds
  return format_duration_ns(static_cast<MonoNs>(std::clamp(seconds, 0.0, kLongest) * 1e9));
}

std::string text(const Json& json, std::string_view field) {
  const Json& value = at(json, field);
  return value.is_string() ? masked(value.get<std::string>()) : "-";
}

std::string masked(std::string text) {
  const auto byte = [&text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (byte(i) < 0x20 || byte(i) == 0x7f) {
      text[i] = '?';
    } else if (byte(i) == 0xc2 && i + 1 < text.size() && byte(i + 1) >= 0x80 &&
               byte(i + 1) < 0xa0) {
      text.replace(i, 2, "?");  // U+0080 to U+009F: to a terminal U+009B is ESC [
    }
  }
  return text;
}

}  // namespace orlop::cli::status_fields
