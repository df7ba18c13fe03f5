// SPDX-License-Identifier: Apache-2.0
#include "node/option_report.h"

#include <sstream>

#include "runtime/segment_files.h"

namespace orlop::node {
namespace {

// What nothing set means: protocol/node/node.cpp, completed().
constexpr std::uint64_t kReserveShare = 50;
constexpr std::uint64_t kClientShare = 4;

std::string or_share(std::uint64_t set, const char* meaning, const char* share) {
  return std::string(meaning) + (set == 0 ? std::string(" (") + share + ")" : std::string());
}

constexpr char kPageHead[] =
    R"(<!-- Printed by `orlop config docs`; a test holds it against the program. Do not edit. -->
# Configuration of a node

`orlop serve` and `orlopd` take the same options. Each has a key in the file, a flag and a variable:

```
flag  >  environment  >  file  >  default
```

* The file is TOML: `--config FILE`, else `$ORLOP_CONFIG`, else none is read. The systemd unit names
  `/etc/orlop/orlop.toml`. `orlop config sample` prints one that works as it is.
* A variable that is empty counts as not set. Of a repeated flag the last one counts.
* `orlop config show [FLAGS]` prints the effective values, who gave each, and what follows from them (slab
  size, the reserve in bytes). `orlop config check FILE` looks at a file alone.
* A size has a unit, powers of 1024: `64GiB`, `4608KiB`, `4718592B`. `GB` is refused: nobody agrees what it
  means. A duration has a unit, too: `250ms`, `1.5s`, `2m`.
* The memory is made once, by the keeper: `memory.*`, the addresses and the keeper's times are taken up by a
  new node only. A new server reads the rest again.

)";

constexpr char kPageTail[] =
    R"(## Mistakes

A node does not start on a mistake. It says all of them at once (ten at most), a line each: where (`FILE:LINE`,
flag or variable), what is wrong, what to write instead; the exit status is 2. An unknown key, flag or
variable is told with the nearest known name. Values that are good each and contradict each other are told
with both origins: `memory.capacity` and `memory.payload`, a reserve larger than the memory, a value longer than
a slab.

)";

// Lines of the page are at most so long.
constexpr std::size_t kPageColumns = 108;

std::string foreign_part() {
  std::string text =
      "Unknown variables that begin with `ORLOP_` are mistakes as well, but for the links that "
      "Kubernetes sets "
      "for a service whose name begins with `orlop` (`ORLOP_PORT`, `ORLOP_SERVICE_HOST`, ...) and "
      "for those "
      "that other programs of the project read:";
  const std::vector<std::string> names = foreign_variables();
  for (const std::string& name : names)
    text += " `" + name + (&name == &names.back() ? "`." : "`,");
  std::string out, line;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (line.size() + 1 + word.size() > kPageColumns) {
      out += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + line + "\n";
}

constexpr char kSampleHead[] =
    R"(# Configuration of an Orlop node; works as it is. Printed by `orlop config sample`.
#
# Check it:           orlop config check FILE
# See what holds:     orlop config show --config FILE
# All about options:  orlop config docs
#
# Flags and ORLOP_* variables win over this file. Lines with one # are defaults or examples.
)";

const char* group_title(const std::string& group) {
  if (group == "memory") return "Memory";
  if (group == "node") return "Node: addresses, users, processes";
  if (group == "log") return "Log";
  if (group == "eviction") return "Eviction";
  if (group == "client") return "Limits of a client";
  return "Others";
}

void page_row(const OptionRow& row, std::string& page) {
  page += "| `" + row.key + "`<br>`" + row.flag + "`<br>`" + row.variable + "` | " +
          std::string(to_string(row.type)) + " | " + row.default_text() + " | " +
          row.limits_text() + " | " + row.help + " |\n";
}

// Values of these types stand without quotes in TOML.
std::string toml_value(const OptionRow& row) {
  if (row.type == OptionType::kSwitch) return row.example == "on" ? "true" : "false";
  if (row.type == OptionType::kUsers) return "[" + row.example + "]";
  return "\"" + row.example + "\"";
}

void sample_row(const OptionRow& row, std::string& text) {
  const std::string limits = row.limits_text();
  text += "\n## " + row.help + "\n## " + std::string(to_string(row.type)) +
          (limits.empty() ? "" : ": " + limits) + "; default: " + row.default_text() + "\n";
  // All that a node must be told.
  const bool set = row.key == "memory.capacity";
  text +=
      (set ? "" : "#") + row.key.substr(row.group().size() + 1) + " = " + toml_value(row) + "\n";
}

}  // namespace

std::vector<DerivedValue> derived_values(const Settings& settings) {
  const NodeOptions& options = settings.options;
  if (!settings.sized()) return {};
  const auto geometry = runtime::geometry_of(options.memory);
  if (!geometry) return {};
  const std::uint64_t value_bytes = geometry->value_bytes();
  const protocol::NodeConfig& machine = options.machine;
  const auto share = [value_bytes](std::uint64_t set, std::uint64_t part) {
    return set == 0 ? value_bytes / part : set;
  };
  return {
      {"memory.value_bytes", value_bytes, "value area: whole slabs"},
      {"memory.slab_bytes", geometry->slab_bytes, "a slab holds values of one length"},
      {"memory.slabs", geometry->slab_count, "so many different lengths fit side by side"},
      {"memory.control_bytes", geometry->control_bytes, "index and slot table at most, sparse"},
      {"memory.process_bytes", runtime::kPrivateBytes, "counted for the two processes"},
      {"eviction.reserve_bytes", share(machine.reserve_bytes, kReserveShare),
       or_share(machine.reserve_bytes, "kept free ahead of demand", "2 % of the value area")},
      {"client.max_pinned_bytes", share(machine.max_pinned_bytes, kClientShare),
       or_share(machine.max_pinned_bytes, "one client may pin", "25 % of the value area")},
      {"client.max_prepared_bytes", share(machine.prepared_cap_bytes, kClientShare),
       or_share(machine.prepared_cap_bytes, "one client may reserve for puts",
                "25 % of the value area")},
  };
}

std::string configuration_page() {
  std::string page = kPageHead;
  std::string group;
  for (const OptionRow& row : option_rows()) {
    if (row.group() != group) {
      page += group.empty() ? "" : "\n";
      group = row.group();
      page +=
          std::string("## ") + group_title(group) +
          "\n\n| key, flag, variable | type | default | allowed | what |\n|---|---|---|---|---|\n";
    }
    page_row(row, page);
  }
  return page + "\n" + kPageTail + foreign_part();
}

std::string sample_file() {
  std::string text = kSampleHead;
  std::string group;
  for (const OptionRow& row : option_rows()) {
    if (row.group() != group) {
      group = row.group();
      text += "\n[" + group + "]\n";
    }
    sample_row(row, text);
  }
  return text;
}

}  // namespace orlop::node
