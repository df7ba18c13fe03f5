// SPDX-License-Identifier: Apache-2.0
#include "runtime/message_queue.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "platform/system_error.h"
#include "platform/unix_socket.h"

namespace orlop::runtime {

Result<void> MessageQueue::send(protocol::Bytes frame, std::span<const int> descriptors) {
  if (waiting_.empty()) {
    const auto sent = send_message(socket_.get(), frame, descriptors);
    if (!sent) return std::unexpected<Error>(sent.error());
    if (*sent) return {};
  }
  if (waiting_.size() >= kMaxWaiting) {
    return fail(ErrorCode::kLimit, "the other process of this daemon does not read its messages");
  }
  Waiting entry;
  entry.frame = std::move(frame);
  for (const int fd : descriptors) {
    FileDescriptor copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!copy) return system_failure("fcntl(F_DUPFD_CLOEXEC)", errno);
    entry.descriptors.push_back(std::move(copy));
  }
  waiting_.push_back(std::move(entry));
  return {};
}

Result<void> MessageQueue::flush() {
  while (!waiting_.empty()) {
    std::vector<int> descriptors;
    for (const FileDescriptor& one : waiting_.front().descriptors) descriptors.push_back(one.get());
    const auto sent = send_message(socket_.get(), waiting_.front().frame, descriptors);
    if (!sent) return std::unexpected<Error>(sent.error());
    if (!*sent) return {};
    waiting_.pop_front();
  }
  return {};
}

}  // namespace orlop::runtime
