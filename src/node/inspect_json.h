// SPDX-License-Identifier: Apache-2.0
// GET /inspect/...: from the path and its parameters to a question for the node machine, and from
// its answer to JSON. Pure. What the fields mean: docs/operations/cli.md, "inspect".
//
//   /inspect/sums?from=SLAB                        counts by class and namespace, slab by slab
//   /inspect/slots?after=SLOT&row=ROW&limit=N      slots that are not free
//   /inspect/key?row=ROW&id=32 hex digits          one key
//   /inspect/client?id=N                           one client
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "orlop/error.h"
#include "protocol/node/inspect.h"

namespace orlop::node {

using QueryParameters = std::multimap<std::string, std::string>;

// what: "sums", "slots", "key", "client". Errors: kInvalidArgument naming the parameter, its value
// and what is allowed: an unknown one, one given twice, a missing one, no number, too large.
Result<protocol::InspectQuestion> parse_inspection(std::string_view what,
                                                   const QueryParameters& parameters);

// answer: no Error. One JSON object.
std::string inspection_json(const protocol::InspectAnswer& answer);

// 32 lower-case hex digits, the high half first; and back (nullopt: not 32 hex digits).
std::string key_id_text(const KeyId& key);
std::optional<KeyId> parse_key_id(std::string_view text);

}  // namespace orlop::node
