// SPDX-License-Identifier: Apache-2.0
// A node's /status.json as text for people. Pure. A field that is missing shows as "-": a newer or
// older node must not make this fail.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/report.h"

namespace orlop::cli {

std::string status_text(const nlohmann::ordered_json& status, const std::string& socket,
                        const Painter& paint);

}  // namespace orlop::cli
