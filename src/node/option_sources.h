// SPDX-License-Identifier: Apache-2.0
// Where options come from, and which one counts: flag > environment > file > default.
//
//   flags        the last of a repeated one
//   environment  ORLOP_*; empty counts as not set
//   file         --config FILE, else $ORLOP_CONFIG, else none
//
// Every value remembers who gave it. Mistakes are collected, so that one run shows them all.
// Thread: any.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "node/option_table.h"
#include "node/options.h"
#include "orlop/error.h"

namespace CLI {
class App;
}

namespace orlop::node {

// What was said, not yet understood.
struct OptionTexts {
  std::optional<std::string> config;          // --config
  std::optional<int> config_copy;             // a copy of that file, to be read instead of it
  std::map<std::string, std::string> by_key;  // flags: "memory.capacity" -> "256MiB"
  // All variables that begin with ORLOP_, by name.
  std::map<std::string, std::string> environment;
};

// The file that these name; empty: none.
std::string configuration_file(const OptionTexts& texts);
// Registers every option on app; texts must live as long as app parses.
void add_options(CLI::App& app, OptionTexts& texts);
// The ORLOP_ variables of this process.
std::map<std::string, std::string> orlop_environment();
// A variable that means something to the client library, another program of this project, or comes
// from Kubernetes' service links (ORLOP_PORT, ORLOP_..._SERVICE_HOST): no business of a node.
bool is_foreign_variable(std::string_view name);
// All of them but the service links, for the page; a star at the end stands for anything.
std::vector<std::string> foreign_variables();

// More mistakes than this are counted, not shown.
inline constexpr std::size_t kMaxShownMistakes = 10;

struct Settings {
  NodeOptions options;                         // usable if there are no mistakes
  std::map<std::string, std::string> origins;  // key -> "flag --capacity"; absent: default
  std::string file;                            // the one that was read; empty: none
  // One line each, what to do included; control characters that were written are '?' in it.
  std::vector<std::string> mistakes;

  // "default" for a key that nobody gave.
  std::string origin(const std::string& key) const;
  // memory.capacity, or both of memory.payload: without it no node can start.
  bool sized() const;
  // kInvalidArgument with all mistakes, a line each.
  Error error() const;
};

// Reads and checks everything, also values against each other; a size that is not given is no
// mistake here. node.socket is always set.
Settings settle(const OptionTexts& texts);
// For `orlop config check`: the file alone.
Settings settle_file(const std::string& path);

// For a node that is to start. Errors: kInvalidArgument, one line a mistake, at most
// kMaxShownMistakes; also when no memory size is given.
Result<NodeOptions> resolve(const OptionTexts& texts);

}  // namespace orlop::node
