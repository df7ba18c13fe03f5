// SPDX-License-Identifier: Apache-2.0
// The node that a command is about: which socket, what it tells, a client attached to it, and what
// to say when there is none. Thread: main's.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/ids.h"
#include "cli/exit_code.h"
#include "orlop/client.h"
#include "orlop/error.h"

namespace CLI {
class App;
}

namespace orlop::cli {

// `--socket`, with the words that every command uses for it.
void add_socket_option(CLI::App& command, std::string& socket);
// As given, else $ORLOP_SOCKET, else the node's default place.
std::string socket_or_default(const std::string& given);

// Value of a `--wait`: "30" is seconds, as "30s"; other units as everywhere ("500ms"). Errors,
// kInvalidArgument: no duration; more than 24 hours.
Result<MonoNs> parse_wait(const std::string& text);

// report_error(), and how to get a node if the error is that there is none.
ExitCode report_node_error(const char* name, const Error& error);

// A client of the node, attached. It is subject to the node's rules like any other (SO_PEERCRED,
// limits). name: shown by `orlop status`. Errors: kNoNode at once when no node runs; why the attach
// did not succeed within 5 s.
Result<Client> attach(const std::string& name, const std::string& socket);

// Body of GET path of the node's admin address, as JSON. Errors: of find_node() and fetch(); a node
// without the path is kRefused: it is older than this program.
Result<nlohmann::ordered_json> ask_node(const std::string& socket, const std::string& path);

}  // namespace orlop::cli
