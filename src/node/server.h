// SPDX-License-Identifier: Apache-2.0
// The server process: takes over from the keeper, serves, tells others about itself.
#pragma once

#include "node/options.h"

namespace orlop::node {

// keeper_fd: its end of the socket to the keeper. Returns the process's exit status (keeper.h).
int run_server(const NodeOptions& options, int keeper_fd);

}  // namespace orlop::node
