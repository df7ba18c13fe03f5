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

}  // namespace orlop::cli
