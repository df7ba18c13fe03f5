// SPDX-License-Identifier: Apache-2.0
#include "node/admin_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "platform/system_error.h"
#include "platform/unix_socket.h"

namespace orlop::node {
namespace {

constexpr int kBacklog = 16;

Result<AdminAddress> parse_tcp(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) {
    return fail(ErrorCode::kInvalidArgument,
                "admin address \"" + text + "\": write host:port, unix:/path or off");
  }
  AdminAddress address{AdminAddress::Kind::kTcp, text.substr(0, colon), 0, {}};
  if (address.host == "localhost") address.host = "127.0.0.1";
  const std::string port = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (port.empty() || error != std::errc{} || end != port.data() + port.size()) {
    return fail(ErrorCode::kInvalidArgument,
                "admin address \"" + text + "\": \"" + port + "\" is no port (0 to 65535)");
  }
  in_addr parsed{};
  if (::inet_pton(AF_INET, address.host.c_str(), &parsed) != 1) {
    return fail(ErrorCode::kInvalidArgument,
                "admin address \"" + text + "\": \"" + address.host + "\" is no IPv4 address");
  }
  if ((ntohl(parsed.s_addr) >> 24) != 127) {
    return fail(ErrorCode::kInvalidArgument,
                "admin address \"" + text +
                    "\" is not loopback; it asks for no password, so put a proxy in front of "
                    "127.0.0.1 or of unix:/path");
  }
  return address;
}

Result<FileDescriptor> bind_and_listen(const sockaddr* address, socklen_t bytes, int family,
                                       const std::string& text) {
  FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return system_failure("socket(admin)", errno);
  const int on = 1;
  if (family == AF_INET) {
    (void)::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  }
  if (::bind(socket.get(), address, bytes) != 0) {
    const int error = errno;
    return system_failure("bind(" + text + ")", error, {},
                          error == EADDRINUSE ? ErrorCode::kAddressInUse : ErrorCode::kSystem);
  }
  if (::listen(socket.get(), kBacklog) != 0) return system_failure("listen(" + text + ")", errno);
  return socket;
}

// True when nobody listens at the path any more.
bool stale(const sockaddr_un& address) {
  FileDescriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return probe &&
         ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
         errno == ECONNREFUSED;
}

}  // namespace

Result<AdminAddress> parse_admin_address(const std::string& text) {
  if (text == "off") return AdminAddress{};
  if (!text.starts_with("unix:")) return parse_tcp(text);
  AdminAddress address{AdminAddress::Kind::kUnix, {}, 0, text.substr(5)};
  if (address.path.empty() || address.path.size() > kMaxSocketPathBytes) {
    return fail(ErrorCode::kInvalidArgument, "admin address \"" + text +
                                                 "\": the path must have 1 to " +
                                                 std::to_string(kMaxSocketPathBytes) + " bytes");
  }
  return address;
}

AdminListener::~AdminListener() {
  if (socket_ && !path_.empty()) ::unlink(path_.c_str());
}

Result<AdminListener> AdminListener::listen(const AdminAddress& address) {
  AdminListener out;
  if (address.kind == AdminAddress::Kind::kOff) return out;
  if (address.kind == AdminAddress::Kind::kUnix) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path, address.path.data(), address.path.size());
    if (stale(name)) ::unlink(address.path.c_str());
    auto socket = bind_and_listen(reinterpret_cast<sockaddr*>(&name), sizeof name, AF_UNIX,
                                  "unix:" + address.path);
    if (!socket) return std::unexpected<Error>(socket.error());
    (void)::chmod(address.path.c_str(), 0660);
    out.socket_ = std::move(*socket);
    out.path_ = address.path;
    out.bound_ = "unix:" + address.path;
    return out;
  }
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(address.port);
  (void)::inet_pton(AF_INET, address.host.c_str(), &name.sin_addr);
  auto socket = bind_and_listen(reinterpret_cast<sockaddr*>(&name), sizeof name, AF_INET,
                                address.host + ":" + std::to_string(address.port));
  if (!socket) return std::unexpected<Error>(socket.error());
  socklen_t bytes = sizeof name;
  if (::getsockname(socket->get(), reinterpret_cast<sockaddr*>(&name), &bytes) != 0) {
    return system_failure("getsockname(admin)", errno);
  }
  out.socket_ = std::move(*socket);
  out.bound_ = address.host + ":" + std::to_string(ntohs(name.sin_port));
  return out;
}

}  // namespace orlop::node
