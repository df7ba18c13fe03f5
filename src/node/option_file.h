// SPDX-License-Identifier: Apache-2.0
// The TOML file of a node: from a path to texts by key, every mistake with its line.
// Thread: any.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "node/option_table.h"

namespace orlop::node {

// A text that some source gave for an option.
struct GivenText {
  const OptionRow* row = nullptr;
  std::string text;
  std::string origin;  // "/etc/orlop.toml:12", "environment ORLOP_LOG", "flag --capacity"
  std::string blames;  // how a message about it begins: "/etc/orlop.toml:12: memory.capacity"
};

struct OptionFile {
  std::vector<GivenText> given;       // in the order of the lines
  std::vector<std::string> mistakes;  // complete messages
};

// A file of all options with comments is 5 KiB.
inline constexpr std::size_t kMaxOptionFileBytes = 1024 * 1024;

// Values are only brought into texts; whether they are good is for OptionRow::set.
// Mistakes: no such file, a folder, unreadable, no regular file (a reload reads it again), too
// long, nothing in it, not TOML, a key twice, unknown keys with the nearest one, tables and values
// in each other's place, values of the wrong type.
// read_from: where its text lies, if that is a copy; messages name `path` all the same.
OptionFile read_option_file(const std::string& path, const std::string& read_from);
inline OptionFile read_option_file(const std::string& path) {
  return read_option_file(path, path);
}

}  // namespace orlop::node
