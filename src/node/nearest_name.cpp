// SPDX-License-Identifier: Apache-2.0
#include "node/nearest_name.h"

#include <algorithm>
#include <utility>

namespace orlop::node {
namespace {

// Names beyond this are no slips of the fingers, and the work is the product of two lengths.
constexpr std::size_t kLongestName = 128;

std::size_t edits(std::string_view a, std::string_view b) {
  // Distances of the first i, i-1 and i-2 letters of a to every beginning of b.
  std::vector<std::size_t> row(b.size() + 1), last(b.size() + 1), before(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string_view last_part(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

std::size_t length_difference(std::string_view a, std::string_view b) {
  return std::max(a.size(), b.size()) - std::min(a.size(), b.size());
}

// distance() is never less.
std::size_t least_distance(std::string_view name, std::string_view known) {
  return std::min(length_difference(name, known),
                  length_difference(last_part(name), last_part(known)) + 1);
}

// A wrong group costs one edit, however it is spelt.
std::size_t distance(std::string_view name, std::string_view known) {
  const std::size_t whole = edits(name, known);
  if (known.find('.') == std::string_view::npos) return whole;
  return std::min(whole, edits(last_part(name), last_part(known)) + 1);
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  if (name.size() > kLongestName) return {};
  const std::string* best = nullptr;
  std::size_t least = std::max<std::size_t>(1, last_part(name).size() / 3) + 1;
  std::size_t least_whole = 0;
  for (const std::string& one : known) {
    if (least_distance(name, one) > least) continue;
    const std::size_t near = distance(name, one);
    if (near > least) continue;
    const std::size_t whole = edits(name, one);
    if (near < least || (best != nullptr && near == least && whole < least_whole)) {
      least = near;
      least_whole = whole;
      best = &one;
    }
  }
  return best == nullptr ? std::string() : *best;
}

std::string nearest_hint(std::string_view name, const std::vector<std::string>& known,
                         std::string_view listed_by) {
  const std::string nearest = nearest_name(name, known);
  if (!nearest.empty()) return "; did you mean \"" + nearest + "\"?";
  return "; `" + std::string(listed_by) + "` lists what there is";
}

}  // namespace orlop::node
