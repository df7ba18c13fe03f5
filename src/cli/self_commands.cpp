// SPDX-License-Identifier: Apache-2.0
// orlop completion, orlop man: the program describes itself.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/build_info.h"
#include "cli/command.h"
#include "cli/completion.h"
#include "cli/man_page.h"

namespace orlop::cli {

void register_completion(CLI::App& app, Action& chosen) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print a completion script for a shell");
  command->add_option("shell", *shell, "which shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer("For this session: source <(orlop completion bash)");
  command->callback([shell, &app, &chosen] {
    chosen = [shell, &app] {
      const CommandFacts root = command_tree(app);
      const std::string script = *shell == "bash"  ? bash_completion(root)
                                 : *shell == "zsh" ? zsh_completion(root)
                                                   : fish_completion(root);
      std::fputs(script.c_str(), stdout);
      return ExitCode::kOk;
    };
  });
}

void register_man(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("man", "Print the manual page; orlop man | man -l -");
  command->callback([&app, &chosen] {
    chosen = [&app] {
      std::fputs(man_page(command_tree(app), kBuildVersion).c_str(), stdout);
      return ExitCode::kOk;
    };
  });
}

}  // namespace orlop::cli
