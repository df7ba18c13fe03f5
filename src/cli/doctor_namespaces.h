// SPDX-License-Identifier: Apache-2.0
// Finds readers and writers that talk past each other: pages asked for in one namespace while they
// are written in another, and the descriptor fields in which the two differ. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace orlop::cli {

// One family of namespaces (all descriptor fields but the rank coordinates) that is asked and not
// written, and the written family that is nearest to it.
struct NamespaceSplit {
  std::string asked;    // "namespace 1 (vllm, model m)", or "namespaces 1, 2 (...)"
  std::string written;  // likewise
  // "dtype \"bf16\" vs \"fp8\"", "tp_rank {0, 1, 2, 3} vs {0, 1}"; asked first, then written.
  std::vector<std::string> differences;
  std::uint64_t misses = 0;     // of the asked ones
  std::uint64_t elsewhere = 0;  // of these: the node found the key in another namespace
  std::uint64_t pages = 0;      // readable in the written ones
};

// The engine of the namespace in which `orlop doctor` makes its round trip.
inline constexpr char kDoctorEngine[] = "orlop-doctor";

// namespaces: that part of /status.json. A namespace counts as asked and not written when its
// misses say that the key is in another one, or when it has misses, no hit and never held a page.
// In the order of the node's list; empty when nobody writes anything.
std::vector<NamespaceSplit> find_namespace_splits(const nlohmann::ordered_json& namespaces);

struct NearestNamespace {
  std::string name;                      // as in NamespaceSplit
  std::vector<std::string> differences;  // descriptor first; empty: the same
};
// Of the node's namespaces the one with the fewest differing fields, the first of equals; none when
// the node has none.
std::optional<NearestNamespace> nearest_namespace(const nlohmann::ordered_json& namespaces,
                                                  const nlohmann::ordered_json& descriptor);

// The status as it would be had doctor never run: without its namespace, and without its own puts
// and reads in the sums (each run stores one page there and reads it once).
nlohmann::ordered_json without_doctor(nlohmann::ordered_json status);

}  // namespace orlop::cli
