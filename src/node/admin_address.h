// SPDX-License-Identifier: Apache-2.0
// Where metrics and status are served: the keeper makes the listening socket once, so that the
// address stays the same over restarts of the server.
// Thread: none.
#pragma once

#include <cstdint>
#include <string>

#include "orlop/error.h"
#include "platform/file_descriptor.h"

namespace orlop::node {

struct AdminAddress {
  enum class Kind { kOff, kTcp, kUnix };
  Kind kind = Kind::kOff;
  std::string host;        // kTcp: an IPv4 address of this machine's loopback
  std::uint16_t port = 0;  // kTcp; 0: any free one
  std::string path;        // kUnix
  bool operator==(const AdminAddress&) const = default;
};
// "off", "127.0.0.1:9464", "localhost:0", "unix:/run/orlop/admin.sock".
// Errors: kInvalidArgument; also for addresses other than loopback: nobody is asked for a password
// here, so what leaves the machine goes through something that asks.
Result<AdminAddress> parse_admin_address(const std::string& text);

// A listening socket, close-on-exec. Closing it removes a Unix socket's path.
class AdminListener {
 public:
  AdminListener() = default;
  AdminListener(AdminListener&& other) noexcept = default;
  AdminListener& operator=(AdminListener&& other) noexcept = default;
  ~AdminListener();
  // Errors: kAddressInUse (port taken, somebody answers at the path), kInvalidArgument, kSystem.
  static Result<AdminListener> listen(const AdminAddress& address);

  int fd() const { return socket_.get(); }
  explicit operator bool() const { return static_cast<bool>(socket_); }
  // As bound, with the real port: "127.0.0.1:40123", "unix:/path", "off".
  const std::string& bound() const { return bound_; }

 private:
  FileDescriptor socket_;
  std::string bound_ = "off";
  std::string path_;
};

}  // namespace orlop::node
