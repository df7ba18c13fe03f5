// SPDX-License-Identifier: Apache-2.0
// The node that runs at a socket: found, asked, judged. Check names: node, versions, restarts,
// capacity, descriptor.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/doctor_check.h"
#include "node/status_file.h"
#include "orlop/error.h"

namespace orlop::cli {

// What could be learned without attaching.
struct NodeLook {
  std::optional<node::StatusFile> file;
  bool keeper_visible = false;    // its pid lives, as seen from here
  nlohmann::ordered_json status;  // null: unknown
  std::string why;                // why it is unknown
};

// Unlike find_node, goes on when the keeper's pid is not to be seen: the node may live in another
// pid namespace and answer all the same.
NodeLook look_at_node(const std::string& socket);

// Pure. version and abi: of this program.
std::vector<Check> judge_node(const NodeLook& look, const std::string& version, std::uint64_t abi);

// Pure: whether the node knows this namespace; if not, the nearest it knows, and the fields that
// differ. descriptor: as JSON with all fields.
Check judge_descriptor(const nlohmann::ordered_json& status,
                       const nlohmann::ordered_json& descriptor);

}  // namespace orlop::cli
