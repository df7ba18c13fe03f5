// SPDX-License-Identifier: Apache-2.0
// orlop remove: some pages of a namespace, with the groups they were written in. As a client of the
// node, so whoever may attach may remove.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <unordered_set>

#include "cli/admin_client.h"
#include "cli/command.h"
#include "cli/json_parts.h"
#include "cli/key_text.h"
#include "cli/named_namespace.h"
#include "cli/node_target.h"
#include "cli/report.h"

namespace orlop::cli {
namespace {

// Keys of one call: its request is 64 KiB in the channel's arena of 8 MiB.
constexpr std::size_t kKeysPerCall = 4'096;

struct Arguments {
  std::string socket, ns, keys_file;
  std::vector<std::string> hex, text;
  bool json = false;
};

struct Removed {
  std::uint64_t keys = 0, present = 0, slots = 0;
};

Result<std::vector<std::string>> wanted_keys(const Arguments& arguments) {
  std::vector<std::string> keys;
  if (!arguments.keys_file.empty()) {
    auto read = read_keys(arguments.keys_file);
    if (!read) return std::unexpected(read.error());
    keys = std::move(*read);
  }
  for (const std::string& hex : arguments.hex) {
    auto key = key_of_hex(hex);
    if (!key) return std::unexpected(key.error());
    keys.push_back(std::move(*key));
  }
  for (const std::string& text : arguments.text) {
    auto key = key_of_text(text);
    if (!key) return std::unexpected(key.error());
    keys.push_back(std::move(*key));
  }
  // A key that is named twice would count as one that was not there.
  std::unordered_set<std::string_view> seen;
  std::vector<std::string> unique;
  unique.reserve(keys.size());
  for (const std::string& key : keys)
    if (seen.insert(key).second) unique.push_back(key);
  return unique;
}

// All are asked for before the first is removed: a removal takes a key's group along, and with it
// keys of a later call. A page that comes or goes in between is counted as it was when asked for.
Result<Removed> remove_keys(Client& client, const Namespace& ns,
                            const std::vector<std::string>& keys) {
  Removed sum;
  sum.keys = keys.size();
  for (const bool ask : {true, false}) {
    for (std::size_t first = 0; first < keys.size(); first += kKeysPerCall) {
      const std::size_t end = std::min(keys.size(), first + kKeysPerCall);
      const std::vector<Key> part(keys.begin() + static_cast<std::ptrdiff_t>(first),
                                  keys.begin() + static_cast<std::ptrdiff_t>(end));
      if (ask) {
        const auto there = client.exists(ns, part);
        if (!there) return std::unexpected(there.error());
        sum.present += static_cast<std::uint64_t>(std::ranges::count(there->present, true));
      } else {
        const auto removed = client.remove(ns, part);
        if (!removed) return std::unexpected(removed.error());
        sum.slots += *removed;
      }
    }
  }
  return sum;
}

void show(const Removed& removed, const NamedNamespace& ns, bool json) {
  const std::uint64_t missing = removed.keys - removed.present;
  if (json) {
    const nlohmann::ordered_json out = {
        {"namespace", {{"row", ns.row.value}, {"digest", ns.digest}}},
        {"keys", removed.keys},
        {"removed", removed.present},
        {"not_present", missing},
        {"slots", removed.slots}};
    print_json(out);
    return;
  }
  std::printf("removed %s of %s keys from %s; with their groups %s pages are gone\n",
              format_count(removed.present).c_str(), format_count(removed.keys).c_str(),
              ns.title().c_str(), format_count(removed.slots).c_str());
  if (missing > 0) std::printf("%s were not there\n", format_count(missing).c_str());
}

ExitCode run(const Arguments& arguments) {
  const auto keys = wanted_keys(arguments);
  if (!keys) return report_error("remove", keys.error());
  const std::string socket = socket_or_default(arguments.socket);
  const auto status = fetch_status(socket);
  if (!status) return report_node_error("remove", status.error());
  const auto all = list_namespaces(*status);
  if (!all) return report_error("remove", all.error());
  const auto ns = find_namespace(*all, arguments.ns);
  if (!ns) return report_error("remove", ns.error());
  auto client = attach("orlop remove", socket);
  if (!client) return report_node_error("remove", client.error());
  const auto open = client->open_namespace(ns->descriptor);
  if (!open) return report_node_error("remove", open.error());
  const auto removed = remove_keys(*client, *open, *keys);
  if (!removed) return report_node_error("remove", removed.error());
  show(*removed, *ns, arguments.json);
  return removed->present == removed->keys ? ExitCode::kOk : ExitCode::kBad;
}

}  // namespace

void register_remove(CLI::App& app, Action& chosen) {
  auto a = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "remove", "Remove pages by their keys; status 1 if one of them was not there");
  add_socket_option(*command, a->socket);
  command->add_option("--namespace", a->ns, "row, or digest prefix")->required();
  CLI::Option_group* which = command->add_option_group("keys", "which keys");
  which->add_option("--key", a->hex, "a key's bytes in hex; may be given again");
  which->add_option("--text", a->text, "a key that is a text; may be given again");
  which->add_option("--keys-file", a->keys_file,
                    "one key a line, in hex or as text:...; - is standard input");
  which->require_option(1, 3);
  command->add_flag("--json", a->json, "JSON instead of text");
  command->callback([a, &chosen] { chosen = [a] { return run(*a); }; });
}

}  // namespace orlop::cli
