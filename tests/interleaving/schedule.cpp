// SPDX-License-Identifier: Apache-2.0
#include "schedule.h"

#include <charconv>

namespace orlop::interleaving {
namespace {

bool take_number(std::string_view& text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take_mark(std::string_view& text, char mark) {
  if (text.empty() || text[0] != mark) return false;
  text.remove_prefix(1);
  return true;
}

bool take_action(std::string_view& text, Action& action) {
  std::uint64_t fiber = 0, count = 0;
  if (!take_number(text, action.step)) return false;
  if (take_mark(text, 'x')) {
    action.kind = Action::Kind::kAbandon;
  } else if (take_mark(text, 'y')) {
    action.kind = Action::Kind::kAbandonLost;
  } else if (take_mark(text, 's')) {
    action.kind = Action::Kind::kSwitch;
    if (!take_number(text, fiber)) return false;
    if (take_mark(text, 'k') && !take_number(text, count)) return false;
  } else if (take_mark(text, 'd')) {
    action.kind = Action::Kind::kDrain;
    if (!take_number(text, fiber) || !take_mark(text, 'n') || !take_number(text, count))
      return false;
  } else {
    return false;
  }
  action.fiber = static_cast<std::uint8_t>(fiber);
  action.count = static_cast<std::uint8_t>(count);
  return true;
}

}  // namespace

std::string to_string(const Schedule& schedule) {
  std::string text;
  for (const Action& action : schedule) {
    if (!text.empty()) text += ' ';
    text += std::to_string(action.step);
    switch (action.kind) {
      case Action::Kind::kContinue:
        break;
      case Action::Kind::kSwitch:
        text += "s" + std::to_string(action.fiber);
        if (action.count > 0) text += "k" + std::to_string(action.count);
        break;
      case Action::Kind::kDrain:
        text += "d" + std::to_string(action.fiber) + "n" + std::to_string(action.count);
        break;
      case Action::Kind::kAbandon:
        text += "x";
        break;
      case Action::Kind::kAbandonLost:
        text += "y";
        break;
    }
  }
  return text;
}

std::optional<Schedule> parse_schedule(std::string_view text) {
  Schedule schedule;
  while (!text.empty()) {
    if (take_mark(text, ' ')) continue;
    Action action;
    if (!take_action(text, action)) return std::nullopt;
    schedule.push_back(action);
  }
  return schedule;
}

}  // namespace orlop::interleaving
