// SPDX-License-Identifier: Apache-2.0
#include "platform/service_manager.h"

#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <sstream>

#include "platform/system_error.h"
#include "platform/unix_socket.h"

#ifndef F_DUPFD_QUERY
#define F_DUPFD_QUERY 1027  // Linux 6.10; include/uapi/linux/fcntl.h
#endif

namespace orlop {
namespace {

constexpr int kFirstListenFd = 3;  // SD_LISTEN_FDS_START

Result<FileDescriptor> connect_to_manager(const std::string& address) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const bool abstract = address.starts_with('@');
  if ((!abstract && !address.starts_with('/')) || address.size() < 2 ||
      address.size() >= sizeof name.sun_path) {
    return fail(ErrorCode::kInvalidArgument,
                "NOTIFY_SOCKET=" + address + " is no path and no abstract name (\"@...\")");
  }
  std::memcpy(name.sun_path, address.data(), address.size());
  if (abstract) name.sun_path[0] = 0;
  FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return system_failure("socket(NOTIFY_SOCKET)", errno);
  const auto bytes =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size() + (abstract ? 0 : 1));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), bytes) != 0)
    return system_failure("connect(NOTIFY_SOCKET=" + address + ")", errno);
  return socket;
}

// The value, taken out of the environment; none if it is not set or empty.
std::optional<std::string> take_variable(const char* name) {
  const char* value = ::getenv(name);
  if (value == nullptr || *value == 0) return std::nullopt;
  std::string taken = value;
  ::unsetenv(name);
  return taken;
}
std::optional<std::uint64_t> take_number(const char* name) {
  const auto text = take_variable(name);
  if (!text) return std::nullopt;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc{} || end != text->data() + text->size()) return std::nullopt;
  return number;
}

// sd_listen_fds(3): descriptors 3, 4, ... with names, if they are meant for this process.
std::vector<StoredDescriptor> descriptors_of_environment() {
  const auto pid = take_number("LISTEN_PID");
  const auto count = take_number("LISTEN_FDS");
  std::istringstream names(take_variable("LISTEN_FDNAMES").value_or(""));
  std::vector<StoredDescriptor> out;
  if (pid != static_cast<std::uint64_t>(::getpid()) || !count) return out;
  for (int fd = kFirstListenFd; fd < kFirstListenFd + static_cast<int>(*count); ++fd) {
    std::string name;
    std::getline(names, name, ':');
    if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) break;  // not open: the count is wrong
    out.push_back({std::move(name), FileDescriptor(fd)});
  }
  return out;
}

// sd_watchdog_enabled(3).
std::optional<MonoNs> watchdog_of_environment() {
  const auto pid = take_number("WATCHDOG_PID");
  const auto us = take_number("WATCHDOG_USEC");
  if (!us || *us == 0 || (pid && *pid != static_cast<std::uint64_t>(::getpid()))) return {};
  return *us * kNsPerUs;
}

}  // namespace

bool same_open_file(int a, int b) {
  const int duplicate = ::fcntl(a, F_DUPFD_QUERY, b);
  if (duplicate >= 0) return duplicate == 1;
  const pid_t self = ::getpid();
  return ::syscall(SYS_kcmp, self, self, KCMP_FILE, a, b) == 0;
}

std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return line;
}

Result<ServiceManager> ServiceManager::from_environment() {
  ServiceManager manager;
  manager.stored_ = descriptors_of_environment();
  manager.watchdog_ = watchdog_of_environment();
  const auto address = take_variable("NOTIFY_SOCKET");
  if (!address) return manager;
  auto socket = connect_to_manager(*address);
  if (!socket) return std::unexpected<Error>(socket.error());
  manager.socket_ = std::move(*socket);
  return manager;
}

Result<void> ServiceManager::notify(std::string text) {
  return send({std::move(text), {}});
}

Result<void> ServiceManager::store(const std::string& name, int fd) {
  if (!present()) return {};
  FileDescriptor copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) return system_failure("fcntl(F_DUPFD_CLOEXEC)", errno);
  return send({"FDSTORE=1\nFDNAME=" + name + "\nFDPOLL=0", std::move(copy)});
}

Result<void> ServiceManager::remove(const std::string& name) {
  return send({"FDSTOREREMOVE=1\nFDNAME=" + name, {}});
}

Result<FileDescriptor> ServiceManager::barrier() {
  if (!present()) return FileDescriptor();
  auto pipe = make_pipe();
  if (!pipe) return std::unexpected<Error>(pipe.error());
  const auto sent = send({"BARRIER=1", std::move(pipe->write_end)});
  if (!sent) return std::unexpected<Error>(sent.error());
  return std::move(pipe->read_end);
}

Result<void> ServiceManager::send(Message message) {
  if (!present()) return {};
  const auto flushed = flush();
  if (!flushed) return flushed;
  if (waiting_.empty()) {
    const auto sent = try_send(message);
    if (!sent) return std::unexpected<Error>(sent.error());
    if (*sent) return {};
  }
  if (waiting_.size() >= kMaxWaiting)
    return fail(ErrorCode::kLimit, "the service manager does not read its notifications");
  waiting_.push_back(std::move(message));
  return {};
}

Result<bool> ServiceManager::try_send(const Message& message) {
  const auto bytes = std::as_bytes(std::span(message.text.data(), message.text.size()));
  const int fd = message.descriptor.get();
  return send_message(socket_.get(), bytes, std::span(&fd, message.descriptor ? 1 : 0));
}

Result<void> ServiceManager::flush() {
  while (!waiting_.empty()) {
    const auto sent = try_send(waiting_.front());
    if (!sent) return std::unexpected<Error>(sent.error());
    if (!*sent) return {};
    waiting_.pop_front();
  }
  return {};
}

}  // namespace orlop
