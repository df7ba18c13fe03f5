// SPDX-License-Identifier: Apache-2.0
// orlop flush: a namespace, its family or everything is gone at once. As a client of the node, so
// whoever may attach may flush.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <memory>

#include "cli/admin_client.h"
#include "cli/command.h"
#include "cli/json_parts.h"
#include "cli/named_namespace.h"
#include "cli/node_target.h"
#include "cli/report.h"
#include "cli/status_fields.h"

namespace orlop::cli {
namespace {

using status_fields::Json;
using Namespaces = std::vector<NamedNamespace>;

struct Arguments {
  std::string socket, ns;
  bool family = false, all = false, yes = false, json = false;
};

std::uint64_t pages_of(const NamedNamespace& ns) {
  return status_fields::number(ns.facts, "slots");
}

std::uint64_t pages_of(const Namespaces& namespaces) {
  std::uint64_t pages = 0;
  for (const NamedNamespace& ns : namespaces) pages += pages_of(ns);
  return pages;
}

Result<Namespaces> wanted(const Namespaces& all, const Arguments& arguments) {
  if (arguments.all) return all;
  const auto one = find_namespace(all, arguments.ns);
  if (!one) return std::unexpected(one.error());
  Namespaces chosen;
  for (const NamedNamespace& ns : all) {
    if (ns.row == one->row || (arguments.family && ns.family_digest == one->family_digest))
      chosen.push_back(ns);
  }
  return chosen;
}

// Everything of everybody: asked for at a terminal, else --yes must say it.
ExitCode confirm(const Namespaces& all) {
  if (!is_terminal(STDIN_FILENO) || !is_terminal(STDERR_FILENO)) {
    return report_error(
        "flush", {ErrorCode::kInvalidArgument, "--all needs --yes where nobody can be asked"});
  }
  std::fprintf(stderr, "flush all %s namespaces, %s pages? [y/N] ",
               format_count(all.size()).c_str(), format_count(pages_of(all)).c_str());
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "yes") return ExitCode::kOk;
  std::fputs("nothing was flushed\n", stderr);
  return ExitCode::kBad;
}

// One call a namespace: a family is flushed by name, so that what is reported is what was done.
Result<void> flush_all_of(Client& client, const Namespaces& namespaces) {
  for (const NamedNamespace& ns : namespaces) {
    const auto open = client.open_namespace(ns.descriptor);
    if (!open) return std::unexpected(open.error());
    if (const auto flushed = client.flush(*open); !flushed) {
      return fail(flushed.error().code, ns.title() + ": " + flushed.error().message);
    }
  }
  return {};
}

void show(const Namespaces& flushed, bool json) {
  if (!json) {
    for (const NamedNamespace& ns : flushed) {
      std::printf("flushed %s: %s pages are gone\n", ns.title().c_str(),
                  format_count(pages_of(ns)).c_str());
    }
    if (flushed.empty()) std::puts("no namespace is open: nothing to flush");
    return;
  }
  Json list = Json::array();
  for (const NamedNamespace& ns : flushed)
    list.push_back({{"row", ns.row.value}, {"digest", ns.digest}, {"pages", pages_of(ns)}});
  print_json({{"flushed", list}, {"pages", pages_of(flushed)}});
}

ExitCode run(const Arguments& arguments) {
  const std::string socket = socket_or_default(arguments.socket);
  const auto status = fetch_status(socket);
  if (!status) return report_node_error("flush", status.error());
  const auto all = list_namespaces(*status);
  if (!all) return report_error("flush", all.error());
  const auto chosen = wanted(*all, arguments);
  if (!chosen) return report_error("flush", chosen.error());
  if (arguments.all && !arguments.yes) {
    if (const ExitCode code = confirm(*chosen); code != ExitCode::kOk) return code;
  }
  auto client = attach("orlop flush", socket);
  if (!client) return report_node_error("flush", client.error());
  if (const auto flushed = flush_all_of(*client, *chosen); !flushed) {
    return report_node_error("flush", flushed.error());
  }
  show(*chosen, arguments.json);
  return ExitCode::kOk;
}

}  // namespace

void register_flush(CLI::App& app, Action& chosen) {
  auto a = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("flush", "Forget a namespace's pages, or all: nobody reads them again");
  add_socket_option(*command, a->socket);
  command->add_flag("--json", a->json, "JSON instead of text");
  CLI::Option_group* what = command->add_option_group("what", "what to flush");
  CLI::Option* ns = what->add_option("--namespace", a->ns, "row, or digest prefix");
  CLI::Option* all = what->add_flag("--all", a->all, "every namespace; asks, or needs --yes");
  what->require_option(1);
  command->add_flag("--family", a->family, "with --namespace: all ranks of its family too")
      ->needs(ns);
  command->add_flag("--yes", a->yes, "with --all: do not ask")->needs(all);
  command->callback([a, &chosen] { chosen = [a] { return run(*a); }; });
}

}  // namespace orlop::cli
