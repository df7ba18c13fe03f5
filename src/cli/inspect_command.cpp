// SPDX-License-Identifier: Apache-2.0
// orlop inspect: what a node holds, in detail. Only asks (admin HTTP), changes nothing.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>

#include "cli/admin_client.h"
#include "cli/command.h"
#include "cli/inspect_sums.h"
#include "cli/inspect_view.h"
#include "cli/json_parts.h"
#include "cli/key_text.h"
#include "cli/named_namespace.h"
#include "cli/node_target.h"
#include "cli/report.h"
#include "cli/status_fields.h"
#include "node/inspect_json.h"

namespace orlop::cli {
namespace {

using status_fields::Json;
using Namespaces = std::vector<NamedNamespace>;

constexpr std::uint32_t kDefaultLimit = 50;
constexpr std::uint32_t kMostSlots = 1'000'000;

struct Arguments {
  std::string socket;
  bool json = false;
  std::string ns;                       // slots, key
  std::uint32_t limit = kDefaultLimit;  // slots
  bool list = false;                    // slots: --namespace or --limit was given
  std::string key_hex, key_text, id;    // key
  std::string client;                   // client
};

// What every question needs.
struct Node {
  std::string socket;
  Json status;
  Namespaces namespaces;
};

Result<Node> look_up(const Arguments& arguments) {
  Node node;
  node.socket = socket_or_default(arguments.socket);
  auto status = fetch_status(node.socket);
  if (!status) return std::unexpected(status.error());
  node.status = std::move(*status);
  auto namespaces = list_namespaces(node.status);
  if (!namespaces) return std::unexpected(namespaces.error());
  node.namespaces = std::move(*namespaces);
  return node;
}

void show(const Arguments& arguments, const Json& json, const std::string& text) {
  if (arguments.json) {
    print_json(json);
  } else {
    std::fputs(text.c_str(), stdout);
  }
}

Painter paint() {
  return Painter(wants_colour(STDOUT_FILENO));
}

Json identified(const NamedNamespace& ns) {
  return {{"row", ns.row.value}, {"digest", ns.digest}};
}

// ---- namespaces ----

Result<ExitCode> inspect_namespaces(const Arguments& arguments, const Node& node) {
  Json json = Json::array();
  for (const NamedNamespace& ns : node.namespaces) {
    Json one = ns.facts;
    one["digest"] = ns.digest;
    one["family_digest"] = ns.family_digest;
    json.push_back(std::move(one));
  }
  show(arguments, json, namespaces_text(node.namespaces, paint()));
  return ExitCode::kOk;
}

// ---- slots ----

Result<ExitCode> show_sums(const Arguments& arguments, const Node& node) {
  Json sums, part;
  std::uint64_t from = 0;
  do {
    auto answer = ask_node(node.socket, "/inspect/sums?from=" + std::to_string(from));
    if (!answer) return std::unexpected(answer.error());
    add_sums(sums, *answer);
    // Grows, or a node that is wrong would keep us here.
    const auto next = status_fields::known_number(sums, "next");
    if (next && *next <= from) return fail(ErrorCode::kCorrupt, "the node's cursor stands still");
    from = next.value_or(0);
  } while (from != 0);
  sums.erase("next");
  show(arguments, sums, slot_sums_text(sums, node.namespaces, paint()));
  return ExitCode::kOk;
}

Result<ExitCode> list_slots(const Arguments& arguments, const Node& node) {
  std::string filter;
  if (!arguments.ns.empty()) {
    const auto ns = find_namespace(node.namespaces, arguments.ns);
    if (!ns) return std::unexpected(ns.error());
    filter = "&row=" + std::to_string(ns->row.value);
  }
  Json slots = Json::array();
  std::uint64_t after = 0;
  while (slots.size() < arguments.limit) {
    const auto left = std::min<std::size_t>(arguments.limit - slots.size(), protocol::kInspectRows);
    auto answer = ask_node(node.socket, "/inspect/slots?after=" + std::to_string(after) +
                                            "&limit=" + std::to_string(left) + filter);
    if (!answer) return std::unexpected(answer.error());
    for (const Json& slot : status_fields::array_at(*answer, "slots")) slots.push_back(slot);
    const auto next = status_fields::known_number(*answer, "next");
    if (!next) break;
    if (*next <= after) return fail(ErrorCode::kCorrupt, "the node's cursor stands still");
    after = *next;
  }
  show(arguments, slots, slot_list_text(slots));
  return ExitCode::kOk;
}

Result<ExitCode> inspect_slots(const Arguments& arguments, const Node& node) {
  return arguments.list ? list_slots(arguments, node) : show_sums(arguments, node);
}

// ---- one key ----

Result<KeyId> wanted_id(const Arguments& arguments, const NamedNamespace& ns) {
  if (!arguments.id.empty()) {
    std::string lower = arguments.id;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    const auto id = node::parse_key_id(lower);
    if (id) return *id;
    return fail(ErrorCode::kInvalidArgument,
                "--id has 32 hex digits, as `orlop inspect slots` "
                "lists them; for a key's bytes use --key or --text");
  }
  const auto key =
      arguments.key_hex.empty() ? key_of_text(arguments.key_text) : key_of_hex(arguments.key_hex);
  if (!key) return std::unexpected(key.error());
  return ns.id_of(*key);
}

Result<ExitCode> inspect_key(const Arguments& arguments, const Node& node) {
  const auto ns = find_namespace(node.namespaces, arguments.ns);
  if (!ns) return std::unexpected(ns.error());
  const auto id = wanted_id(arguments, *ns);
  if (!id) return std::unexpected(id.error());
  const std::string id_text = node::key_id_text(*id);
  auto facts =
      ask_node(node.socket, "/inspect/key?row=" + std::to_string(ns->row.value) + "&id=" + id_text);
  if (!facts) return std::unexpected(facts.error());
  (*facts)["id"] = id_text;
  (*facts)["namespace"] = identified(*ns);
  show(arguments, *facts, key_text(*facts, *ns, node.namespaces, paint()));
  const bool present = status_fields::at(*facts, "present") == Json(true);
  return present ? ExitCode::kOk : ExitCode::kBad;
}

// ---- one client ----

// By id, process id or name, in this order: an id is what `orlop status` shows first.
Result<Json> find_client(const Json& status, const std::string& wanted) {
  const Json& clients = status_fields::array_at(status, "clients");
  std::vector<Json> found;
  for (const char* field : {"client", "pid", "name"}) {
    for (const Json& client : clients) {
      const Json& value = status_fields::at(client, field);
      if (value == Json(wanted) || json_text(value, -1) == wanted) found.push_back(client);
    }
    if (!found.empty()) break;
  }
  if (found.size() == 1) return found.front();
  std::string which;
  for (const Json& client : found) which += " " + status_fields::count(client, "client");
  return fail(ErrorCode::kInvalidArgument,
              found.empty() ? "no client has the id, process id or name '" + wanted +
                                  "'; `orlop status` lists them"
                            : "several clients are called '" + wanted + "': ids" + which);
}

Result<ExitCode> inspect_client(const Arguments& arguments, const Node& node) {
  const auto client = find_client(node.status, arguments.client);
  if (!client) return std::unexpected(client.error());
  const std::uint64_t id = status_fields::number(*client, "client");
  auto facts = ask_node(node.socket, "/inspect/client?id=" + std::to_string(id));
  if (!facts) return std::unexpected(facts.error());
  (*facts)["pid"] = status_fields::at(*client, "pid");
  (*facts)["state"] = status_fields::at(*client, "state");
  show(arguments, *facts, client_text(*facts, *client, node.namespaces, paint()));
  return ExitCode::kOk;
}

// ---- arguments ----

using Question = Result<ExitCode> (*)(const Arguments&, const Node&);

ExitCode run(const Arguments& arguments, Question question) {
  const auto node = look_up(arguments);
  if (!node) return report_node_error("inspect", node.error());
  const auto done = question(arguments, *node);
  return done ? *done : report_node_error("inspect", done.error());
}

CLI::App* add_question(CLI::App& inspect, Action& chosen, std::shared_ptr<Arguments> arguments,
                       const char* name, const char* help, Question question) {
  CLI::App* command = inspect.add_subcommand(name, help);
  add_socket_option(*command, arguments->socket);
  command->add_flag("--json", arguments->json, "JSON instead of text");
  command->callback([arguments, question, &chosen] {
    chosen = [arguments, question] { return run(*arguments, question); };
  });
  return command;
}

}  // namespace

void register_inspect(CLI::App& app, Action& chosen) {
  auto a = std::make_shared<Arguments>();
  CLI::App* inspect = app.add_subcommand("inspect",
                                         "What a node holds: namespaces, slots, a key, "
                                         "a client");
  inspect->require_subcommand(1);
  add_question(*inspect, chosen, a, "namespaces", "Open namespaces with their whole descriptors",
               inspect_namespaces);
  CLI::App* slots = add_question(*inspect, chosen, a, "slots",
                                 "Counts and bytes by slot size, state and namespace; with "
                                 "--namespace or --limit a list of slots",
                                 inspect_slots);
  const auto list = [a](const std::string&) { a->list = true; };
  slots->add_option("--namespace", a->ns, "list its slots only: row, or digest prefix")->each(list);
  slots->add_option("--limit", a->limit, "slots to list")
      ->check(CLI::Range(1u, kMostSlots))
      ->capture_default_str()
      ->each(list);
  CLI::App* key = add_question(*inspect, chosen, a, "key",
                               "One key: state, slot, group, writer, who reads it; status 1 if it "
                               "is not present",
                               inspect_key);
  key->add_option("--namespace", a->ns, "row, or digest prefix")->required();
  CLI::Option_group* which = key->add_option_group("key", "which key");
  which->add_option("--key", a->key_hex, "the key's bytes in hex");
  which->add_option("--text", a->key_text, "the key as a text");
  which->add_option("--id", a->id, "its id, as `orlop inspect slots` lists it");
  which->require_option(1);
  CLI::App* client = add_question(*inspect, chosen, a, "client",
                                  "One client: what it reads and writes", inspect_client);
  client->add_option("client", a->client, "id, process id or name")->required();
}

}  // namespace orlop::cli
