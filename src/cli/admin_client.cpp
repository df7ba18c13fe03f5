// SPDX-License-Identifier: Apache-2.0
#include "cli/admin_client.h"

#include <httplib.h>
#include <signal.h>

#include <cerrno>

#include "node/admin_address.h"

namespace orlop::cli {
namespace {

bool process_lives(std::uint32_t pid) {
  // EPERM: it lives and is another user's.
  return pid != 0 && (::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM);
}

std::unique_ptr<httplib::Client> connect_to(const node::AdminAddress& address) {
  if (address.kind == node::AdminAddress::Kind::kUnix) {
    auto client = std::make_unique<httplib::Client>(address.path);
    client->set_address_family(AF_UNIX);
    return client;
  }
  return std::make_unique<httplib::Client>(address.host, address.port);
}

}  // namespace

Result<node::StatusFile> find_node(const std::string& socket) {
  auto file = node::read_status_file(socket);
  if (!file) return file;
  if (!process_lives(file->keeper_pid)) {
    return fail(ErrorCode::kNoNode, "no node runs at " + socket + " (its keeper, pid " +
                                        std::to_string(file->keeper_pid) + ", has died)");
  }
  return file;
}

Result<std::string> fetch(const std::string& admin, const std::string& path, MonoNs timeout) {
  const auto address = node::parse_admin_address(admin);
  if (!address) return std::unexpected(address.error());
  if (address->kind == node::AdminAddress::Kind::kOff) {
    return fail(ErrorCode::kNoNode, "the node runs with --admin off, so nobody can ask it");
  }
  const auto client = connect_to(*address);
  const auto seconds = static_cast<time_t>(timeout / kNsPerSecond);
  const auto microseconds = static_cast<time_t>(timeout % kNsPerSecond / kNsPerUs);
  client->set_connection_timeout(seconds, microseconds);
  client->set_read_timeout(seconds, microseconds);
  client->set_write_timeout(seconds, microseconds);
  const auto response = client->Get(path);
  if (!response) {
    return fail(ErrorCode::kNoNode, "the node does not answer at " + admin + ": " +
                                        httplib::to_string(response.error()));
  }
  if (response->status != 200) {
    return fail(ErrorCode::kSystem, "GET " + path + " at " + admin + ": HTTP status " +
                                        std::to_string(response->status) + ": " + response->body);
  }
  return response->body;
}

std::optional<nlohmann::ordered_json> parse_answer(std::string_view text) {
  using Json = nlohmann::ordered_json;
  bool too_deep = false;
  // The parser itself does not recurse; what is too deep is not kept.
  const auto keep = [&too_deep](int outer, Json::parse_event_t event, Json&) {
    const bool begins =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    too_deep |= begins && outer >= kMostJsonDepth;
    return !too_deep;
  };
  auto json = Json::parse(text, keep, /*allow_exceptions=*/false);
  if (too_deep || !json.is_object()) return std::nullopt;
  return json;
}

Result<nlohmann::ordered_json> fetch_status(const std::string& socket) {
  const auto file = find_node(socket);
  if (!file) return std::unexpected(file.error());
  const auto text = fetch(file->admin, "/status.json");
  if (!text) return std::unexpected(text.error());
  auto status = parse_answer(*text);
  if (!status) {
    return fail(ErrorCode::kCorrupt, "/status.json at " + file->admin + " is no JSON object");
  }
  return *std::move(status);
}

}  // namespace orlop::cli
