// SPDX-License-Identifier: Apache-2.0
// What the table of options and a node's settings look like to people: the effective values with
// their origins, what follows from them, the page of the documentation, the sample file. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "node/option_sources.h"

namespace orlop::node {

// A number that follows from the options.
struct DerivedValue {
  std::string name;  // "memory.slab_bytes"; bytes if it ends so, else a count
  std::uint64_t value;
  std::string meaning;  // "free slots kept ahead of demand (2 % of the value area)"
  bool is_bytes() const { return name.ends_with("_bytes"); }
};

// In a fixed order. Requires settings without mistakes; empty when no memory size is given.
std::vector<DerivedValue> derived_values(const Settings& settings);

// docs/operations/configuration.md, as `orlop config docs` prints it: whole, with a final newline.
std::string configuration_page();
// packaging/orlop.toml, as `orlop config sample` prints it: a valid file that sets memory.capacity
// and node.socket's place as a comment like everything else.
std::string sample_file();

}  // namespace orlop::node
