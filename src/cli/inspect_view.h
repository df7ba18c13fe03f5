// SPDX-License-Identifier: Apache-2.0
// What `orlop inspect` shows, as text for people. Pure; a field that is missing shows as "-", and
// what clients say comes without its control characters (cli/status_fields.h).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/named_namespace.h"
#include "cli/report.h"

namespace orlop::cli {

// Every namespace with its whole descriptor, a field a line.
std::string namespaces_text(const std::vector<NamedNamespace>& all, const Painter& paint);

// sums: added up over all parts (inspect_sums.h).
std::string slot_sums_text(const nlohmann::ordered_json& sums,
                           const std::vector<NamedNamespace>& all, const Painter& paint);
// slots: rows of /inspect/slots.
std::string slot_list_text(const nlohmann::ordered_json& slots);

// facts: of /inspect/key.
std::string key_text(const nlohmann::ordered_json& facts, const NamedNamespace& ns,
                     const std::vector<NamedNamespace>& all, const Painter& paint);

// facts: of /inspect/client; in_status: the client's part of /status.json (pid and such).
std::string client_text(const nlohmann::ordered_json& facts,
                        const nlohmann::ordered_json& in_status,
                        const std::vector<NamedNamespace>& all, const Painter& paint);

}  // namespace orlop::cli
