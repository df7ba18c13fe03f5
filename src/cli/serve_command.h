// SPDX-License-Identifier: Apache-2.0
// orlop serve: the node in the foreground, with the options of orlopd. Its arguments are the node
// room's business, so main hands them over before anything else looks at them.
#pragma once

#include <string>
#include <vector>

namespace orlop::cli {

// arguments: what follows `orlop serve`. Returns the exit status of node_main().
int serve_main(std::vector<std::string> arguments);

}  // namespace orlop::cli
