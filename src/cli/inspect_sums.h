// SPDX-License-Identifier: Apache-2.0
// A node tells about its slots in parts, a bounded piece of work each (node/inspect_json.h); here
// they are added up. Pure.
#pragma once

#include <nlohmann/json.hpp>

namespace orlop::cli {

// Adds the part `from` (an answer of /inspect/sums) to `to` (null before the first): classes by
// slot_bytes, namespaces by row; numbers add up, the longest run stays the longest. `next` is
// from's. Fields of a newer node that are no numbers are taken from the last part.
void add_sums(nlohmann::ordered_json& to, const nlohmann::ordered_json& from);

}  // namespace orlop::cli
