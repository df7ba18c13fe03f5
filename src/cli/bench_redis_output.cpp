// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_redis_output.h"

#include <charconv>
#include <optional>
#include <string>

namespace orlop::cli {
namespace {

constexpr std::size_t kQuotedBytes = 200;

// Takes `"text"` and the comma behind it off the line.
std::optional<std::string_view> take_field(std::string_view& line) {
  if (line.empty() || line.front() != '"') return std::nullopt;
  const auto end = line.find('"', 1);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view field = line.substr(1, end - 1);
  line.remove_prefix(end + 1);
  if (!line.empty() && line.front() == ',') line.remove_prefix(1);
  return field;
}

}  // namespace

Result<double> redis_requests_per_second(std::string_view csv, std::string_view test) {
  for (std::string_view rest = csv; !rest.empty();) {
    const auto end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (const auto name = take_field(line); !name || *name != test) continue;
    const auto rate = take_field(line);
    double value = 0;
    if (!rate) break;
    const auto [stop, error] = std::from_chars(rate->data(), rate->data() + rate->size(), value);
    if (error != std::errc{} || stop != rate->data() + rate->size() || !(value > 0)) break;
    return value;
  }
  return fail(ErrorCode::kCorrupt, "redis-benchmark said nothing about " + std::string(test) +
                                       ": \"" + std::string(csv.substr(0, kQuotedBytes)) + "\"");
}

}  // namespace orlop::cli
