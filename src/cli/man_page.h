// SPDX-License-Identifier: Apache-2.0
// The manual page orlop(1) in roff, made from the command tree and the table of exit codes. Pure:
// the same program writes the same page.
#pragma once

#include <string>

#include "cli/command_tree.h"

namespace orlop::cli {

// version: as shown in the page's footer.
std::string man_page(const CommandFacts& root, const std::string& version);

}  // namespace orlop::cli
