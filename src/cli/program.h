// SPDX-License-Identifier: Apache-2.0
// The parser of the program `orlop`: every subcommand, in the order of `orlop --help`.
#pragma once

#include "cli/command.h"

namespace orlop::cli {

// The name and description that app was made with are kept.
inline constexpr char kProgramDescription[] =
    "Orlop: one KV cache for every inference engine on a host";

// Registers all subcommands on app, which must outlive `chosen` and its call.
void build_program(CLI::App& app, Action& chosen);

// After app.parse() threw: "'bahs' is not one of bash, zsh, fish; did you mean \"bash\"?". Empty
// when every value is one that its option allows: the parser's own words are the better ones then.
std::string wrong_choice(const CLI::App& app);

}  // namespace orlop::cli
