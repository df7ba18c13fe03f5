// SPDX-License-Identifier: Apache-2.0
// Contract: what a program answers to --preflight, before a keeper lets it serve (any bytes: it may
// be any program).
//   * Refused: with a reason. Accepted: an ABI, a version of at most kMaxVersionText bytes, and
//     settings, no more of all than the answer's bytes.
//   * Formatted again it is read as the same; compared with itself nothing differs.
//   * Only our own ABI passes.
#include "protocol/attach/preflight.h"

#include "fuzz_target.h"
#include "input.h"
#include "protocol/attach/frames.h"

namespace orlop::fuzz {

using namespace protocol;

void run_one(std::span<const std::byte> input) {
  const auto parsed = parse_preflight(as_text(input));
  if (!parsed) {
    CHECK(parsed.error().code == ErrorCode::kInvalidArgument && !parsed.error().message.empty());
    return;
  }
  CHECK(input.size() <= kMaxPreflightBytes);
  CHECK(!parsed->version.empty() && parsed->version.size() <= kMaxVersionText);
  CHECK(same_abi(*parsed, "0.1.0").has_value() == (parsed->abi == segment::kAbiVersion));
  const std::string text = format_preflight(*parsed);
  const auto again = parse_preflight(text);
  if (text.size() <= kMaxPreflightBytes) {
    CHECK(again.has_value() && again->abi == parsed->abi && again->version == parsed->version &&
              again->keeper_settings == parsed->keeper_settings,
          "formatted and read again");
  }
  Preflight other = *parsed;
  if (!other.keeper_settings.empty()) other.keeper_settings[0].second += "x";
  CHECK(differing_settings(*parsed, other).empty() == other.keeper_settings.empty());
}

std::vector<Seed> make_seeds() {
  Preflight ours;
  ours.version = "0.1.0";
  ours.keeper_settings = {{"memory.capacity", "64GiB"}, {"memory.numa", "interleave"}};
  Preflight newer = ours;
  newer.abi = segment::kAbiVersion + 1;
  newer.version = "0.2.0-rc1";
  return {text_seed("ours", format_preflight(ours)), text_seed("newer", format_preflight(newer)),
          text_seed("later-lines", format_preflight(ours) + "feature gpu\nkeeper x=\n"),
          text_seed("usage", "usage: something else\n"),
          text_seed("no-number", "orlop-preflight 1\nabi two\nversion 1\n")};
}

}  // namespace orlop::fuzz
