// SPDX-License-Identifier: Apache-2.0
// main() of a node, for `orlopd` and for `orlop serve`: the same program is the keeper, and with
// --server --keeper-fd N the server that the keeper starts from /proc/self/exe.
#pragma once

#include <string>
#include <vector>

namespace orlop::node {

// invocation: how this program is called up to its options ({"orlopd"} or {"orlop", "serve"}); the
// keeper starts its server with it. arguments: the options that follow.
// Returns the exit status: 0 after a graceful stop, else exit_status.h; with --server or
// --preflight one of keeper.h, which only the keeper reads.
int node_main(const std::vector<std::string>& invocation, std::vector<std::string> arguments);

}  // namespace orlop::node
