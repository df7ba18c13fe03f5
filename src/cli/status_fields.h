// SPDX-License-Identifier: Apache-2.0
// Reads a node's /status.json. Pure. A field that is missing or of another type is "unknown", never
// an error: a newer or older node must not make a tool fail.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace orlop::cli::status_fields {

using Json = nlohmann::ordered_json;

// A null when it is missing or `json` is no object. Lives as long as json.
const Json& at(const Json& json, std::string_view field);
// `at`, but an empty array unless it is one.
const Json& array_at(const Json& json, std::string_view field);

// None: unknown.
std::optional<std::uint64_t> known_number(const Json& json, std::string_view field);
std::optional<double> known_seconds(const Json& json, std::string_view field);  // at least 0
// 0 when unknown.
std::uint64_t number(const Json& json, std::string_view field);
double seconds(const Json& json, std::string_view field);
// Sum of an object's numbers, {"never_written": 3, "evicted": 4} -> 7.
std::uint64_t sum_of(const Json& object);

// Of the status's "counters"; 0 when unknown.
std::uint64_t counter(const Json& status, std::string_view name);

// The node takes no new puts.
bool is_draining(const Json& status);

// For people; "-" when unknown.
std::string count(const Json& json, std::string_view field);     // "1,234"
std::string bytes(const Json& json, std::string_view field);     // "4.00 KiB"
std::string duration(const Json& json, std::string_view field);  // of a number of seconds
std::string text(const Json& json, std::string_view field);      // masked()
// "12.5 ms" for a number of seconds.
std::string duration_text(double seconds);
// Texts that come from clients must not reach a terminal with their control characters: each
// becomes '?'.
std::string masked(std::string text);

}  // namespace orlop::cli::status_fields
