// SPDX-License-Identifier: Apache-2.0
// What to say about arguments that a parser did not take.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace orlop::node {

// After app.parse() threw: "unknown option --capcity; did you mean \"--capacity\"?", for the
// options of the subcommand that was being parsed. Empty when every argument had its place: the
// parser's own words are the better ones then.
std::string unknown_argument(const CLI::App& app);

}  // namespace orlop::node
