// SPDX-License-Identifier: Apache-2.0
// Which namespace a command means: by the row that `orlop status` shows, or by the beginning of its
// digest. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "orlop/error.h"
#include "orlop/namespace.h"

namespace orlop::cli {

// Shortest prefix of a digest that names a namespace. A number of fewer digits is a row.
inline constexpr std::size_t kLeastDigestDigits = 6;
inline constexpr std::size_t kMostRowDigits = 4;

struct NamedNamespace {
  NamespaceRow row;
  NamespaceDescriptor descriptor;
  std::string digest;            // 32 hex digits, of the canonical text
  std::string family_digest;     // the same without rank coordinates
  nlohmann::ordered_json facts;  // its part of /status.json

  KeyId id_of(std::string_view key) const;  // of a page key's bytes
  std::string title() const;                // "namespace 3 (vllm, model m, rank 0/8)"
};

// Of a node's /status.json, by row. A namespace whose descriptor cannot be read (a newer node's) is
// an error: what it is cannot be said. Error: kCorrupt.
Result<std::vector<NamedNamespace>> list_namespaces(const nlohmann::ordered_json& status);

// name: a row (up to 4 decimal digits) or 6 to 32 hex digits. Errors, kInvalidArgument: neither;
// names none, or several (they are listed).
Result<NamedNamespace> find_namespace(const std::vector<NamedNamespace>& all,
                                      const std::string& name);

}  // namespace orlop::cli
