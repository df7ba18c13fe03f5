// SPDX-License-Identifier: Apache-2.0
// Asks a running node about itself, over the admin address that it wrote into "<socket>.json".
// Thread: any; every call opens and closes its own connection.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "node/status_file.h"
#include "orlop/error.h"

namespace orlop::cli {

// A server answers in microseconds; one that is busy with recovery takes longer.
inline constexpr MonoNs kAdminTimeout = 5 * kNsPerSecond;

// The file of a node that lives. Errors: kNoNode (no file; or a stale one: its keeper has died),
// kCorrupt, kSystem.
Result<node::StatusFile> find_node(const std::string& socket);

// Body of GET path. admin: "127.0.0.1:40123" or "unix:/path". Errors: kNoNode (nobody answers, the
// node has no admin address), kSystem (another status than 200; it is in the message).
Result<std::string> fetch(const std::string& admin, const std::string& path,
                          MonoNs timeout = kAdminTimeout);

// Objects and lists inside each other: a node's answers have 6. Copying and printing JSON recurses,
// and what answers at that address may be any program.
inline constexpr int kMostJsonDepth = 32;
// An answer of a node as JSON. Nothing if it is no JSON object, or nested deeper.
std::optional<nlohmann::ordered_json> parse_answer(std::string_view text);

// find_node and /status.json. Errors: of both; kCorrupt if it is no JSON object.
Result<nlohmann::ordered_json> fetch_status(const std::string& socket);

}  // namespace orlop::cli
