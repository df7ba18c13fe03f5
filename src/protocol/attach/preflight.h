// SPDX-License-Identifier: Apache-2.0
// What a program answers to --preflight, before a keeper lets it serve the memory of the one
// before:
//
//   orlop-preflight 1
//   abi 2
//   version 0.1.0
//   keeper memory.capacity=64GiB        one line for each setting that only a new keeper takes up
//
// It has parsed its whole configuration by then; if it could not, it exits with an error instead.
// Pure. Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orlop/error.h"
#include "segment/control_area.h"

namespace orlop::protocol {

inline constexpr std::size_t kMaxPreflightBytes = 16 * 1024;

struct Preflight {
  std::uint32_t abi = segment::kAbiVersion;
  std::string version;
  std::vector<std::pair<std::string, std::string>> keeper_settings;  // key, value in words
};

std::string format_preflight(const Preflight& preflight);
// Reads as far as it understands: lines of a later version are passed over, because the ABI
// decides. Errors: kInvalidArgument (not such an answer, or too long).
Result<Preflight> parse_preflight(std::string_view text);

// Whether a server of that program may be given memory of ours. Errors: kAbiMismatch, both named.
Result<void> same_abi(const Preflight& theirs, std::string_view our_version);
// "memory.capacity: 64GiB -> 96GiB", one for each setting of theirs that differs from ours.
std::vector<std::string> differing_settings(const Preflight& ours, const Preflight& theirs);

}  // namespace orlop::protocol
