// SPDX-License-Identifier: Apache-2.0
// Sizes and durations as people write and read them (configuration, command line, tables).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "orlop/error.h"

namespace orlop {

// "4096", "64K", "256MiB", "1.5 GiB" -> bytes. Units (any case): none or B, K/KiB, M/MiB, G/GiB,
// T/TiB, all powers of 1024. KB, MB, ... are refused: nobody agrees what they mean. A fraction of a
// byte is dropped. Errors: kInvalidArgument, the message quotes the text and says what to write.
Result<std::uint64_t> parse_bytes(std::string_view text);

// "250us", "1.5 s", "10ms", "2m", "1h", "500ns" -> nanoseconds. The unit is required except for 0.
Result<MonoNs> parse_duration(std::string_view text);

// "512 B", "4.00 KiB", "1.50 GiB": three significant digits and the largest unit that fits.
std::string format_bytes(std::uint64_t bytes);
// "1,234,567".
std::string format_count(std::uint64_t count);
// "850 ns", "1.25 us", "12.5 ms", "3.00 s", "2 m 05 s", "1 h 02 m".
std::string format_duration_ns(MonoNs ns);

}  // namespace orlop
