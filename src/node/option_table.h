// SPDX-License-Identifier: Apache-2.0
// The one table of a node's options. Everything else is made from it: flags and `serve --help`, the
// variables, the reader of the file, `orlop config show | check | docs | sample`, the start log.
// A new option is one row in option_table.cpp and one member of NodeOptions.
// Thread: any; the table is built once and never changes.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "node/option_values.h"
#include "node/options.h"

namespace orlop::node {

struct OptionRow {
  std::string key;   // in the file: "memory.capacity"; what is before the first dot is its group
  std::string flag;  // "--capacity"
  std::string variable;  // "ORLOP_MEMORY_CAPACITY": the key's, but for two older names
  OptionType type = OptionType::kText;
  OptionRange range;                 // kBytes, kDuration, kText, kUsers; enforced by set
  std::vector<std::string> choices;  // kChoice: all; others: words that are valid besides
  std::string unset;       // what holds when nothing is set; empty: the default is a value
  std::string example;     // valid; in the sample file and in messages
  std::string help;        // one sentence, no full stop
  bool of_keeper = false;  // taken up only by a new keeper; the others also by a reload
  // Takes a text over. Errors: kInvalidArgument, quoting the text, saying what to write.
  std::function<Result<void>(NodeOptions&, const std::string&)> set;
  // The value as exact text, or `unset`.
  std::function<std::string(const NodeOptions&)> get;

  std::string group() const { return key.substr(0, key.find('.')); }
  // Of a node that is told nothing: the program's own defaults.
  std::string default_text() const { return get(NodeOptions{}); }
  // "4KiB to 15TiB", "try, off": what may be written.
  std::string limits_text() const;
};

// In the order in which they are shown; rows of a group stand together.
const std::vector<OptionRow>& option_rows();
const OptionRow* find_option(std::string_view key);        // nullptr: no such key
const OptionRow* find_by_variable(std::string_view name);  // nullptr: no such variable
bool is_option_group(std::string_view key);                // "memory", "memory.payload"

// "memory.payload.bytes" -> "ORLOP_MEMORY_PAYLOAD_BYTES".
std::string variable_of_key(std::string_view key);

// Keys and effective values in words, in the table's order: for the start log and /status.json.
std::vector<std::pair<std::string, std::string>> effective(const NodeOptions& options);

}  // namespace orlop::node
