// SPDX-License-Identifier: Apache-2.0
// Completion scripts for shells, made from the command tree. Pure.
//
// They know commands, options and the values of options that allow a few; every other value is left
// to the shell's completion of file names.
#pragma once

#include <string>

#include "cli/command_tree.h"

namespace orlop::cli {

std::string bash_completion(const CommandFacts& root);
std::string zsh_completion(const CommandFacts& root);
std::string fish_completion(const CommandFacts& root);

}  // namespace orlop::cli
