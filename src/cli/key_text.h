// SPDX-License-Identifier: Apache-2.0
// Page keys as people write them: bytes in hex, or a text taken as it is. Pure but for reading the
// file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orlop/error.h"

namespace orlop::cli {

inline constexpr std::size_t kMaxKeyBytes = 4'096;  // client.h
// Both bound the command's memory, to some hundred MiB; a larger list is several files.
inline constexpr std::size_t kMaxKeysOfFile = 1'000'000;
inline constexpr std::size_t kMaxKeysFileBytes = 128ULL << 20;

// "00ff10" -> 3 bytes; spaces and "0x" are not allowed. Errors, kInvalidArgument: odd number of
// digits, no hex digit (position named), empty or longer than 4,096 bytes.
Result<std::string> key_of_hex(std::string_view hex);
// The text's bytes. Errors: as to its length.
Result<std::string> key_of_text(std::string_view text);

// One key a line: hex, or `text:` and the text. Empty lines and lines that begin with # are passed
// over; a carriage return at a line's end too. Errors, kInvalidArgument, naming the line; more than
// kMaxKeysOfFile keys.
Result<std::vector<std::string>> parse_keys(std::string_view content);
// path "-": standard input. Errors: of parse_keys(); kInvalidArgument if it cannot be read or is
// larger than kMaxKeysFileBytes.
Result<std::vector<std::string>> read_keys(const std::string& path);

}  // namespace orlop::cli
