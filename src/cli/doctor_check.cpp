// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_check.h"

#include <algorithm>

#include "base/units.h"

namespace orlop::cli {
namespace {

// Columns of "  warn  " and of the check's name after it.
constexpr std::size_t kVerdictColumns = 8;
constexpr std::size_t kNameColumns = 20;
constexpr std::size_t kLeastWidth = 40;

Ink ink_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return Ink::kGood;
    case Verdict::kWarning:
      return Ink::kWarning;
    case Verdict::kFailure:
      return Ink::kBad;
  }
  return Ink::kPlain;
}

// Lines of at most `width` columns, broken at spaces; a longer word has a line of its own.
std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines{""};
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    std::string& line = lines.back();
    if (line.empty()) {
      line = word;
    } else if (visible_width(line) + 1 + visible_width(word) <= width) {
      line += " " + word;
    } else {
      lines.push_back(word);
    }
    at = end + 1;
  }
  return lines;
}

std::string check_text(const Check& check, const Painter& paint, std::size_t width) {
  const std::size_t indent = kVerdictColumns + kNameColumns;
  const std::size_t room = std::max(width, indent + kLeastWidth / 2) - indent;
  std::string name = check.name;
  if (name.size() < kNameColumns) name.append(kNameColumns - name.size(), ' ');
  const std::string verdict = to_string(check.verdict);
  std::string out = "  " + paint(ink_of(check.verdict), verdict) +
                    std::string(kVerdictColumns - 2 - verdict.size(), ' ') + name;
  bool first = true;
  for (const std::string& line : wrapped(check.finding, room)) {
    out += (first ? "" : std::string(indent, ' ')) + line + "\n";
    first = false;
  }
  if (check.remedy.empty()) return out;
  for (const std::string& line : wrapped("-> " + check.remedy, room)) {
    out += std::string(indent, ' ') + paint(Ink::kBold, line) + "\n";
  }
  return out;
}

}  // namespace

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kWarning:
      return "warn";
    case Verdict::kFailure:
      return "fail";
  }
  return "?";
}

Verdict worst(const std::vector<Section>& sections) {
  Verdict verdict = Verdict::kOk;
  for (const Section& section : sections) {
    for (const Check& check : section.checks) verdict = std::max(verdict, check.verdict);
  }
  return verdict;
}

std::string doctor_text(const std::vector<Section>& sections, const Painter& paint,
                        std::size_t width) {
  std::string out;
  std::uint64_t failures = 0, warnings = 0;
  for (const Section& section : sections) {
    out += paint(Ink::kBold, section.title) + "\n";
    for (const Check& check : section.checks) {
      failures += check.verdict == Verdict::kFailure ? 1 : 0;
      warnings += check.verdict == Verdict::kWarning ? 1 : 0;
      out += check_text(check, paint, std::max(width, kLeastWidth));
    }
    out += "\n";
  }
  const Verdict verdict = worst(sections);
  return out + paint(ink_of(verdict), to_string(verdict)) + ": " + format_count(failures) +
         " failed, " + format_count(warnings) + " warned\n";
}

nlohmann::ordered_json doctor_json(const std::vector<Section>& sections) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const Section& section : sections) {
    Json checks = Json::array();
    for (const Check& check : section.checks) {
      checks.push_back({{"name", check.name},
                        {"verdict", to_string(check.verdict)},
                        {"finding", check.finding},
                        {"remedy", check.remedy},
                        {"figures", check.figures}});
    }
    list.push_back({{"title", section.title}, {"checks", checks}});
  }
  return {{"verdict", to_string(worst(sections))}, {"sections", list}};
}

}  // namespace orlop::cli
