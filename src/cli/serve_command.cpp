// SPDX-License-Identifier: Apache-2.0
#include "cli/serve_command.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "cli/command.h"
#include "node/node_main.h"
#include "node/option_sources.h"

namespace orlop::cli {

int serve_main(std::vector<std::string> arguments) {
  return node::node_main({"orlop", "serve"}, std::move(arguments));
}

// For help, completion and man page: main hands `orlop serve ...` over before anything is parsed.
void register_serve(CLI::App& app, Action& chosen) {
  auto texts = std::make_shared<node::OptionTexts>();
  CLI::App* command =
      app.add_subcommand("serve", "Run a node in the foreground; options: orlop serve --help");
  node::add_options(*command, *texts);
  command->callback([texts, &chosen] { chosen = [] { return ExitCode::kUsage; }; });
}

}  // namespace orlop::cli
