// SPDX-License-Identifier: Apache-2.0
// Values of options as texts: what may be written, and the exact text of a value. What is printed
// can be pasted into a file or behind a flag and means the same. Pure.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "orlop/error.h"

namespace orlop::node {

enum class OptionType {
  kBytes,     // "64GiB": number with a unit, powers of 1024
  kDuration,  // "250ms": number with a unit
  kSwitch,    // on | off, in a file also true | false
  kChoice,    // one of a few words
  kText,      // a path, an address
  kUsers,     // user numbers: "1000,1001", in a file also [1000, 1001]
};
// For tables: "size", "duration", "on / off", ...
std::string_view to_string(OptionType type);

// Both ends allowed. Bytes, nanoseconds, characters of a text, entries of a list.
struct OptionRange {
  std::uint64_t least = 0;
  std::uint64_t most = ~std::uint64_t{0};
};

// Errors of all: kInvalidArgument; the message quotes the text and says what to write.
// A size without a unit is refused: 64 is never 64 GiB, and nobody should have to find out.
Result<std::uint64_t> parse_size(const std::string& text, OptionRange range);
Result<MonoNs> parse_time(const std::string& text, OptionRange range);
Result<bool> parse_switch(const std::string& text);
Result<std::string> parse_choice(const std::string& text, const std::vector<std::string>& choices);
// Without control characters.
Result<std::string> parse_text(const std::string& text, OptionRange range);
// An empty text is an empty list.
Result<std::vector<uid_t>> parse_users(const std::string& text, OptionRange range);

// "64GiB", "4608KiB", "1000B": the largest unit that leaves a whole number.
std::string exact_bytes(std::uint64_t bytes);
// "100ms", "1500us", "2m", "0s".
std::string exact_duration(MonoNs ns);
std::string switch_text(bool on);
std::string users_text(const std::vector<uid_t>& users);
// "4KiB to 15TiB", "1ms to 1h", "at most 107 characters", "at most 64 users"; empty without limits.
std::string range_text(OptionType type, OptionRange range);

}  // namespace orlop::node
