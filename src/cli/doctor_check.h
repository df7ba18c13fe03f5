// SPDX-License-Identifier: Apache-2.0
// What `orlop doctor` says: sections of checks, each with a verdict, the finding in words with its
// number, and what to do. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/report.h"

namespace orlop::cli {

enum class Verdict {
  kOk,
  kWarning,  // works, but costs speed, memory or hits, or will fail later
  kFailure,  // does not work; the program ends with 1
};
// "ok", "warn", "fail".
const char* to_string(Verdict verdict);

struct Check {
  std::string name;  // a word or two, stable: scripts select by it
  Verdict verdict = Verdict::kOk;
  std::string finding{};  // one sentence with the figures
  std::string remedy{};   // what to do; empty when there is nothing to do
  // The same figures for programs, names with units; may be empty.
  nlohmann::ordered_json figures = nlohmann::ordered_json::object();
};

struct Section {
  std::string title;
  std::vector<Check> checks;
};

Verdict worst(const std::vector<Section>& sections);

// Long findings and remedies are wrapped at `width` columns, at least 40.
std::string doctor_text(const std::vector<Section>& sections, const Painter& paint,
                        std::size_t width);
// {"verdict": "ok|warn|fail", "sections": [{"title", "checks": [{"name", "verdict", "finding",
// "remedy", "figures"}]}]}
nlohmann::ordered_json doctor_json(const std::vector<Section>& sections);

}  // namespace orlop::cli
