// SPDX-License-Identifier: Apache-2.0
// The messages half of unix_socket.h.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "platform/system_error.h"
#include "platform/unix_socket.h"

namespace orlop {
namespace {

struct alignas(cmsghdr) ControlBuffer {
  char bytes[CMSG_SPACE(kMaxMessageDescriptors * sizeof(int))];
};

std::string limit_text(std::size_t value, std::size_t limit, const char* unit) {
  return std::to_string(value) + " " + unit + ", the limit is " + std::to_string(limit);
}

Result<void> check_message(std::span<const std::byte> bytes, std::span<const int> descriptors) {
  if (bytes.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "send_message: an empty message would be read as the end of the connection");
  }
  if (bytes.size() > kMaxMessageBytes) {
    return fail(ErrorCode::kInvalidArgument,
                "send_message: " + limit_text(bytes.size(), kMaxMessageBytes, "bytes"));
  }
  if (descriptors.size() > kMaxMessageDescriptors) {
    return fail(
        ErrorCode::kInvalidArgument,
        "send_message: " + limit_text(descriptors.size(), kMaxMessageDescriptors, "descriptors"));
  }
  return {};
}

// Takes ownership of every descriptor that came along, before anything is judged.
std::vector<FileDescriptor> take_descriptors(msghdr& header) {
  std::vector<FileDescriptor> taken;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      taken.emplace_back(fd);
    }
  }
  return taken;
}

}  // namespace

Result<bool> send_message(int socket, std::span<const std::byte> bytes,
                          std::span<const int> descriptors) {
  if (auto valid = check_message(bytes, descriptors); !valid) return std::unexpected(valid.error());
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  ControlBuffer control{};
  if (!descriptors.empty()) {
    header.msg_control = control.bytes;
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return true;  // SEQPACKET: whole or not at all
  if (errno == EAGAIN) return false;
  const bool gone = errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN;
  return system_failure("sendmsg", errno,
                        gone ? "the peer has closed the connection"
                        : errno == ETOOMANYREFS
                            ? "too many descriptors are under way; the receiver "
                              "must take some first"
                            : "",
                        gone ? ErrorCode::kClosed : ErrorCode::kSystem);
}

std::string lost_descriptors_text() {
  return "descriptors were lost (MSG_CTRUNC): more were sent than may be, or this process has as "
         "many open as it may; raise its limit of open files (ulimit -n, LimitNOFILE=)";
}

Result<Received> receive_message(int socket, std::size_t max_bytes, std::size_t max_descriptors,
                                 LostDescriptors lost) {
  max_bytes = std::min(max_bytes, kMaxMessageBytes);
  max_descriptors = std::min(max_descriptors, kMaxMessageDescriptors);
  Received received;
  std::vector<std::byte> buffer(max_bytes);
  iovec part{buffer.data(), buffer.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  ControlBuffer control{};
  header.msg_control = control.bytes;
  // CMSG_LEN, not CMSG_SPACE: the padding would make room for one more.
  header.msg_controllen = max_descriptors == 0 ? 0 : CMSG_LEN(max_descriptors * sizeof(int));
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    if (errno == EAGAIN) return received;
    // Reset: the peer has gone and left messages of ours unread.
    if (errno != ECONNRESET) return system_failure("recvmsg", errno);
    received.state = ReceiveState::kEnd;
    return received;
  }
  // Closed by this vector wherever we leave without handing it over.
  std::vector<FileDescriptor> descriptors = take_descriptors(header);
  if ((header.msg_flags & MSG_CTRUNC) != 0) {
    if (lost == LostDescriptors::kFail)
      return fail(ErrorCode::kLimit, "recvmsg: " + lost_descriptors_text());
    descriptors.clear();
    received.message.descriptors_lost = true;
  }
  if ((header.msg_flags & MSG_TRUNC) != 0) {
    return fail(ErrorCode::kLimit, "recvmsg: a message is longer than the limit of " +
                                       std::to_string(max_bytes) + " bytes; close the connection");
  }
  if (got == 0) {
    received.state = ReceiveState::kEnd;
    return received;
  }
  buffer.resize(static_cast<std::size_t>(got));
  received.state = ReceiveState::kMessage;
  received.message.bytes = std::move(buffer);
  received.message.descriptors = std::move(descriptors);
  return received;
}

}  // namespace orlop
