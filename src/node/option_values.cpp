// SPDX-License-Identifier: Apache-2.0
#include "node/option_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/bytes.h"
#include "base/units.h"

namespace orlop::node {
namespace {

struct Unit {
  std::uint64_t factor;
  const char* name;
};
constexpr std::array kByteUnits = {Unit{kGiB * 1024, "TiB"}, Unit{kGiB, "GiB"}, Unit{kMiB, "MiB"},
                                   Unit{kKiB, "KiB"}};
constexpr std::array kTimeUnits = {Unit{3600 * kNsPerSecond, "h"}, Unit{60 * kNsPerSecond, "m"},
                                   Unit{kNsPerSecond, "s"}, Unit{kNsPerMs, "ms"},
                                   Unit{kNsPerUs, "us"}};

std::unexpected<Error> bad(const std::string& text, const std::string& why) {
  return fail(ErrorCode::kInvalidArgument, "'" + text + "' " + why);
}

bool only_digits(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.") == std::string::npos;
}

Result<std::uint64_t> within(const std::string& text, Result<std::uint64_t> value, OptionType type,
                             OptionRange range) {
  if (!value || (*value >= range.least && *value <= range.most)) return value;
  return bad(text, "is out of limits; write " + range_text(type, range));
}

}  // namespace

std::string_view to_string(OptionType type) {
  switch (type) {
    case OptionType::kBytes:
      return "size";
    case OptionType::kDuration:
      return "duration";
    case OptionType::kSwitch:
      return "switch";
    case OptionType::kChoice:
      return "choice";
    case OptionType::kText:
      return "text";
    case OptionType::kUsers:
      return "users";
  }
  return {};
}

Result<std::uint64_t> parse_size(const std::string& text, OptionRange range) {
  if (only_digits(text)) {
    return bad(text, "has no unit; write B, KiB, MiB, GiB or TiB behind the number");
  }
  return within(text, parse_bytes(text), OptionType::kBytes, range);
}

Result<MonoNs> parse_time(const std::string& text, OptionRange range) {
  return within(text, parse_duration(text), OptionType::kDuration, range);
}

Result<bool> parse_switch(const std::string& text) {
  if (text == "on" || text == "true" || text == "1") return true;
  if (text == "off" || text == "false" || text == "0") return false;
  return bad(text, "is neither on nor off");
}

Result<std::string> parse_choice(const std::string& text, const std::vector<std::string>& choices) {
  if (std::ranges::find(choices, text) != choices.end()) return text;
  std::string known;
  for (const std::string& one : choices) known += (known.empty() ? "" : ", ") + one;
  return bad(text, "is not known; write one of: " + known);
}

Result<std::string> parse_text(const std::string& text, OptionRange range) {
  if (text.empty()) return bad(text, "is empty");
  // It is printed in logs and tables, one line each.
  if (std::ranges::any_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
    return fail(ErrorCode::kInvalidArgument,
                "has a control character in it (a line break, a tab); choose another text");
  }
  if (text.size() <= range.most) return text;
  return bad(text, "is " + std::to_string(text.size()) + " bytes long; at most " +
                       std::to_string(range.most) + ": choose a shorter one");
}

Result<std::vector<uid_t>> parse_users(const std::string& text, OptionRange range) {
  std::vector<uid_t> users;
  if (text.empty()) return users;  // `[]` in a file: nobody besides
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, comma - at);
    uid_t user = 0;
    const char* const end = part.data() + part.size();
    const auto [stopped, error] = std::from_chars(part.data(), end, user);
    // The largest number means "no user" to the kernel.
    if (error != std::errc{} || stopped != end || user == static_cast<uid_t>(-1)) {
      return bad(part, "is no user number; write numbers (`id -u NAME`) and commas: 1000,1001");
    }
    users.push_back(user);
    at = comma + 1;
  }
  if (users.size() <= range.most) return users;
  return fail(ErrorCode::kInvalidArgument,
              std::to_string(users.size()) + " users; at most " + std::to_string(range.most));
}

std::string exact_bytes(std::uint64_t bytes) {
  for (const Unit& unit : kByteUnits) {
    if (bytes != 0 && bytes % unit.factor == 0)
      return std::to_string(bytes / unit.factor) + unit.name;
  }
  return std::to_string(bytes) + "B";
}

std::string exact_duration(MonoNs ns) {
  if (ns == 0) return "0s";
  for (const Unit& unit : kTimeUnits) {
    if (ns % unit.factor == 0) return std::to_string(ns / unit.factor) + unit.name;
  }
  return std::to_string(ns) + "ns";
}

std::string switch_text(bool on) {
  return on ? "on" : "off";
}

std::string users_text(const std::vector<uid_t>& users) {
  std::string text;
  for (const uid_t user : users) text += (text.empty() ? "" : ",") + std::to_string(user);
  return text;
}

std::string range_text(OptionType type, OptionRange range) {
  switch (type) {
    case OptionType::kBytes:
      return exact_bytes(range.least) + " to " + exact_bytes(range.most);
    case OptionType::kDuration:
      return exact_duration(range.least) + " to " + exact_duration(range.most);
    case OptionType::kText:
      return "at most " + std::to_string(range.most) + " bytes";
    case OptionType::kUsers:
      return "at most " + std::to_string(range.most) + " users";
    case OptionType::kSwitch:
    case OptionType::kChoice:
      return {};
  }
  return {};
}

}  // namespace orlop::node
