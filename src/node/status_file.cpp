// SPDX-License-Identifier: Apache-2.0
#include "node/status_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "platform/file_descriptor.h"
#include "platform/small_file.h"
#include "platform/system_error.h"

namespace orlop::node {
namespace {

constexpr std::size_t kMaxStatusFileBytes = 64 * 1024;

}  // namespace

std::string status_file_path(const std::string& socket) {
  return socket + ".json";
}

Result<void> write_status_file(const StatusFile& status) {
  const nlohmann::ordered_json json = {{"socket", status.socket},
                                       {"admin", status.admin},
                                       {"keeper_pid", status.keeper_pid},
                                       {"server_pid", status.server_pid},
                                       {"restarts", status.restarts},
                                       {"segment_id", std::to_string(status.segment.value)},
                                       {"incarnation", std::to_string(status.incarnation.value)}};
  const std::string text =
      json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const std::string path = status_file_path(status.socket);
  const std::string fresh = path + ".new";
  FileDescriptor file(
      ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file) return system_failure("open(" + fresh + ")", errno);
  const ssize_t written = ::write(file.get(), text.data(), text.size());
  const bool whole = written == static_cast<ssize_t>(text.size());
  const int error_number = written < 0 ? errno : ENOSPC;  // a part of it: the rest had no space
  if (whole && ::rename(fresh.c_str(), path.c_str()) == 0) return {};
  const auto failure = whole ? system_failure("rename(" + path + ")", errno)
                             : system_failure("write(" + fresh + ")", error_number);
  ::unlink(fresh.c_str());
  return failure;
}

Result<StatusFile> read_status_file(const std::string& socket) {
  const std::string path = status_file_path(socket);
  if (::access(path.c_str(), F_OK) != 0) {
    return fail(ErrorCode::kNoNode, "no node runs at " + socket + " (" + path + " is not there)");
  }
  const auto text = read_text_file(path, kMaxStatusFileBytes);
  if (!text) return std::unexpected<Error>(text.error());
  try {
    const auto json = nlohmann::json::parse(*text);
    StatusFile status;
    status.socket = json.at("socket").get<std::string>();
    status.admin = json.at("admin").get<std::string>();
    status.keeper_pid = json.at("keeper_pid").get<std::uint32_t>();
    status.server_pid = json.at("server_pid").get<std::uint32_t>();
    status.restarts = json.at("restarts").get<std::uint32_t>();
    status.segment = SegmentId{std::stoull(json.at("segment_id").get<std::string>())};
    status.incarnation = Incarnation{std::stoull(json.at("incarnation").get<std::string>())};
    return status;
  } catch (const std::exception& error) {
    return fail(ErrorCode::kCorrupt, path + ": " + error.what());
  }
}

void remove_status_file(const std::string& socket) {
  ::unlink(status_file_path(socket).c_str());
}

}  // namespace orlop::node
