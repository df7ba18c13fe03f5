// SPDX-License-Identifier: Apache-2.0
// Contract: the file of `orlop remove --keys-file` (any bytes).
//   * Refused: the message names a line that exists.
//   * Accepted: every key has 1 to kMaxKeyBytes bytes, no line gives two, and the keys written in
//   hex
//     are read as the same keys.
#include <algorithm>

#include "cli/key_text.h"
#include "fuzz_target.h"
#include "input.h"

namespace orlop::fuzz {
namespace {

std::string hex_of(const std::string& key) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : key) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

}  // namespace

void run_one(std::span<const std::byte> input) {
  const std::string_view text = as_text(input);
  const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1;
  const auto keys = cli::parse_keys(text);
  if (!keys) {
    CHECK(keys.error().code == ErrorCode::kInvalidArgument);
    CHECK(keys.error().message.starts_with("line "));
    const auto line = std::strtoull(keys.error().message.c_str() + 5, nullptr, 10);
    CHECK(line >= 1 && line <= lines, "the line that is blamed exists");
    return;
  }
  CHECK(keys->size() <= lines);
  std::string written;
  for (const std::string& key : *keys) {
    CHECK(!key.empty() && key.size() <= cli::kMaxKeyBytes);
    written += hex_of(key) + "\n";
  }
  const auto again = cli::parse_keys(written);
  CHECK(again.has_value() && *again == *keys, "hex says the same keys");
}

std::vector<Seed> make_seeds() {
  return {text_seed("hex", "00ff10\nABCDEF\n\n# a comment\n0a"),
          text_seed("texts", "text:system prompt\r\ntext: \ntext:# no comment\n"),
          text_seed("odd", "123\n"), text_seed("no-hex", "text:a\nxy\n"),
          text_seed("empty-text", "text:\n")};
}

}  // namespace orlop::fuzz
