// SPDX-License-Identifier: Apache-2.0
#include "protocol/attach/preflight.h"

#include <charconv>

#include "protocol/attach/frames.h"

namespace orlop::protocol {
namespace {

constexpr std::string_view kFirstLine = "orlop-preflight 1";

std::unexpected<Error> no_answer(std::string why) {
  return fail(ErrorCode::kInvalidArgument, "no answer to --preflight: " + std::move(why));
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

// The rest of the line if it begins with the word.
bool after(std::string_view line, std::string_view word, std::string_view& rest) {
  if (!line.starts_with(word) || line.size() == word.size()) return false;
  rest = line.substr(word.size());
  return true;
}

}  // namespace

std::string format_preflight(const Preflight& preflight) {
  std::string text = std::string(kFirstLine) + "\nabi " + std::to_string(preflight.abi) +
                     "\nversion " + preflight.version + "\n";
  for (const auto& [key, value] : preflight.keeper_settings) {
    text += "keeper " + key + "=" + value + "\n";
  }
  return text;
}

Result<Preflight> parse_preflight(std::string_view text) {
  if (text.size() > kMaxPreflightBytes) return no_answer("it is too long");
  if (take_line(text) != kFirstLine) return no_answer("its first line is another one");
  Preflight out;
  bool abi = false;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    std::string_view rest;
    if (after(line, "abi ", rest)) {
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), out.abi);
      if (error != std::errc{} || end != rest.data() + rest.size())
        return no_answer("its abi is no number");
      abi = true;
    } else if (after(line, "version ", rest)) {
      out.version = rest.substr(0, kMaxVersionText);
    } else if (after(line, "keeper ", rest)) {
      const std::size_t equals = rest.find('=');
      if (equals == std::string_view::npos) return no_answer("a setting without a value");
      out.keeper_settings.emplace_back(rest.substr(0, equals), rest.substr(equals + 1));
    }
  }
  if (!abi || out.version.empty()) return no_answer("abi or version is missing");
  return out;
}

Result<void> same_abi(const Preflight& theirs, std::string_view our_version) {
  if (theirs.abi == segment::kAbiVersion) return {};
  return fail(ErrorCode::kAbiMismatch,
              "version " + theirs.version + " has ABI " + std::to_string(theirs.abi) +
                  ", this node's memory was made by version " + std::string(our_version) +
                  " with ABI " + std::to_string(segment::kAbiVersion) +
                  ": stop the node and start the new one (its contents are lost)");
}

std::vector<std::string> differing_settings(const Preflight& ours, const Preflight& theirs) {
  std::vector<std::string> out;
  for (const auto& [key, value] : theirs.keeper_settings) {
    for (const auto& [our_key, our_value] : ours.keeper_settings) {
      if (our_key == key && our_value != value)
        out.push_back(key + ": " + our_value + " -> " + value);
    }
  }
  return out;
}

}  // namespace orlop::protocol
