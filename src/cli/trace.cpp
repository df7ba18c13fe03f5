// SPDX-License-Identifier: Apache-2.0
#include "cli/trace.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace orlop::cli {
namespace {

using Json = nlohmann::json;

// The message, or none if all is well.
using Complaint = std::optional<std::string>;

Complaint take_number(const Json& line, const char* field, std::uint64_t& out) {
  const auto found = line.find(field);
  if (found == line.end()) return std::nullopt;
  // Some traces write milliseconds and lengths as floating point numbers.
  if (found->is_number_float() && found->get<double>() >= 0 && found->get<double>() < 0x1p63) {
    out = static_cast<std::uint64_t>(found->get<double>());
    return std::nullopt;
  }
  if (!found->is_number_unsigned()) {
    return "\"" + std::string(field) + "\" is not a number >= 0";
  }
  out = found->get<std::uint64_t>();
  return std::nullopt;
}

Complaint take_pages(const Json& line, std::vector<std::uint64_t>& out) {
  const auto found = line.find("hash_ids");
  if (found == line.end()) return "there is no \"hash_ids\"";
  if (!found->is_array() || found->empty()) return "\"hash_ids\" is not a list with a page in it";
  if (found->size() > kMaxTracePages) {
    return "\"hash_ids\" has " + std::to_string(found->size()) + " pages; at most " +
           std::to_string(kMaxTracePages);
  }
  std::unordered_set<std::uint64_t> seen;
  out.reserve(found->size());
  for (std::size_t i = 0; i < found->size(); ++i) {
    const Json& id = (*found)[i];
    const std::string where = "\"hash_ids\"[" + std::to_string(i) + "]";
    if (!id.is_number_unsigned()) return where + " is not a whole number >= 0";
    out.push_back(id.get<std::uint64_t>());
    if (!seen.insert(out.back()).second) {
      return where + " repeats " + std::to_string(out.back()) +
             "; an id stands for a page and all before it";
    }
  }
  return std::nullopt;
}

Complaint parse_line(const std::string& text, TraceRequest& out) {
  if (text.size() > kMaxTraceLineBytes) return std::string("the line is longer than 4 MiB");
  const Json line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (line.is_discarded()) return std::string("not JSON");
  if (!line.is_object()) return std::string("not a JSON object");
  if (auto bad = take_number(line, "timestamp", out.timestamp_ms)) return bad;
  if (auto bad = take_number(line, "input_length", out.input_tokens)) return bad;
  if (auto bad = take_number(line, "output_length", out.output_tokens)) return bad;
  return take_pages(line, out.pages);
}

}  // namespace

Result<Trace> parse_trace(std::istream& in, const std::string& name,
                          std::optional<std::size_t> limit) {
  const std::size_t most = std::min(limit.value_or(kMaxTraceRequests), kMaxTraceRequests);
  Trace trace;
  std::string text;
  for (std::size_t number = 1; trace.requests.size() < most && std::getline(in, text); ++number) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    TraceRequest request;
    if (auto bad = parse_line(text, request)) {
      return fail(ErrorCode::kInvalidArgument, name + ":" + std::to_string(number) + ": " + *bad);
    }
    trace.page_count += request.pages.size();
    trace.longest_request = std::max(trace.longest_request, request.pages.size());
    trace.requests.push_back(std::move(request));
  }
  if (in.bad()) return fail(ErrorCode::kInvalidArgument, name + ": cannot be read to its end");
  if (trace.requests.empty()) {
    return fail(ErrorCode::kInvalidArgument, name + ": there is no request in it");
  }
  return trace;
}

Result<Trace> read_trace(const std::string& path, std::optional<std::size_t> limit) {
  std::ifstream in(path);
  if (!in) {
    return fail(ErrorCode::kInvalidArgument, path + ": cannot be opened: " + std::strerror(errno));
  }
  return parse_trace(in, path, limit);
}

}  // namespace orlop::cli
