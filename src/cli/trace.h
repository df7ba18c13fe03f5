// SPDX-License-Identifier: Apache-2.0
// Reads request traces in the JSONL form published with Mooncake (FAST'25): one JSON object a line,
//   {"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2]}
// hash_ids are the prompt's pages in order; an id stands for a page *and* everything before it, so
// equal ids are equal prefixes. Unknown fields are skipped; the other three may be missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "orlop/error.h"

namespace orlop::cli {

struct TraceRequest {
  std::uint64_t timestamp_ms = 0;
  std::uint64_t input_tokens = 0;
  std::uint64_t output_tokens = 0;
  std::vector<std::uint64_t> pages;  // unique, 1..kMaxTracePages
};

// A put carries at most 65,535 keys (include/orlop/client.h).
inline constexpr std::size_t kMaxTracePages = 65'535;
inline constexpr std::size_t kMaxTraceLineBytes = 4u * 1024 * 1024;
// A bound on what a hostile file makes us hold; the public traces have 12,031 requests.
inline constexpr std::size_t kMaxTraceRequests = 10'000'000;

struct Trace {
  std::vector<TraceRequest> requests;
  std::uint64_t page_count = 0;     // with repetitions
  std::size_t longest_request = 0;  // pages
};

// name: of the file, for messages. limit: read only so many requests. Empty lines are skipped.
// Errors: kInvalidArgument "NAME:LINE: what is wrong".
Result<Trace> parse_trace(std::istream& in, const std::string& name,
                          std::optional<std::size_t> limit = {});
// Also kInvalidArgument: the file cannot be opened or read.
Result<Trace> read_trace(const std::string& path, std::optional<std::size_t> limit = {});

}  // namespace orlop::cli
