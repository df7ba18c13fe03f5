// SPDX-License-Identifier: Apache-2.0
// Contract: a trace file of `orlop replay` (any bytes).
//   * Refused: the message names file and line, and the line exists.
//   * Accepted: every request has 1 to kMaxTracePages different pages, the sums are right, and what
//     was read, written again, is read as the same.
#include "cli/trace.h"

#include <algorithm>
#include <sstream>
#include <unordered_set>

#include "fuzz_target.h"
#include "input.h"

namespace orlop::fuzz {
namespace {

std::string written(const cli::Trace& trace) {
  std::ostringstream out;
  for (const cli::TraceRequest& request : trace.requests) {
    out << R"({"timestamp":)" << request.timestamp_ms << R"(,"input_length":)"
        << request.input_tokens << R"(,"output_length":)" << request.output_tokens
        << R"(,"hash_ids":[)";
    for (std::size_t i = 0; i < request.pages.size(); ++i)
      out << (i == 0 ? "" : ",") << request.pages[i];
    out << "]}\n";
  }
  return out.str();
}

void check_sums(const cli::Trace& trace) {
  std::uint64_t pages = 0;
  std::size_t longest = 0;
  for (const cli::TraceRequest& request : trace.requests) {
    CHECK(!request.pages.empty() && request.pages.size() <= cli::kMaxTracePages);
    const std::unordered_set<std::uint64_t> unique(request.pages.begin(), request.pages.end());
    CHECK(unique.size() == request.pages.size(), "an id once a request");
    pages += request.pages.size();
    longest = std::max(longest, request.pages.size());
  }
  CHECK(trace.page_count == pages && trace.longest_request == longest);
}

}  // namespace

void run_one(std::span<const std::byte> input) {
  const std::string text(as_text(input));
  std::istringstream in(text);
  const auto trace = cli::parse_trace(in, "t");
  if (!trace) {
    const std::string& message = trace.error().message;
    CHECK(trace.error().code == ErrorCode::kInvalidArgument);
    // Of the whole file, it names no line.
    if (message.starts_with("t:") && !message.starts_with("t: ")) {
      const auto line = std::strtoull(message.c_str() + 2, nullptr, 10);
      CHECK(line >= 1 && line <= static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1);
    }
    return;
  }
  check_sums(*trace);
  std::istringstream again(written(*trace));
  const auto same = cli::parse_trace(again, "t");
  CHECK(same.has_value() && written(*same) == written(*trace), "written and read again");
  std::istringstream limited(text);
  const auto first = cli::parse_trace(limited, "t", 1);
  CHECK(first.has_value() && first->requests.size() <= 1);
}

std::vector<Seed> make_seeds() {
  return {text_seed(
              "mooncake",
              R"({"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]})"
              "\n"
              R"({"timestamp": 27482, "input_length": 7322, "output_length": 490, "hash_ids": [0]})"
              "\n"),
          text_seed("floats", R"({"timestamp": 1.5e3, "hash_ids": [18446744073709551615]})"),
          text_seed("negative", R"({"timestamp": -1, "hash_ids": [3]})"),
          text_seed("repeated", R"({"hash_ids": [3, 4, 3]})"),
          text_seed("huge-number", R"({"timestamp": 1e300, "hash_ids": [1e3]})"),
          text_seed("other-fields",
                    "\r\n"
                    R"({"hash_ids":[1],"round":{"a":[{}]}})"
                    "\r\n"),
          text_seed("no-json", "{\"hash_ids\": [1\n")};
}

}  // namespace orlop::fuzz
