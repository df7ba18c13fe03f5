// SPDX-License-Identifier: Apache-2.0
// One end of the socket between keeper and server: frames go out in order, the ones that the socket
// does not take now wait here. Reading is up to the owner (receive_message).
//
// Requires: descriptors that wait are owned by the queue (duplicated), so the caller may close his.
// Bound: kMaxWaiting frames; more means that the other side does not read: the link is broken.
// Thread: none; one owner.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "orlop/error.h"
#include "platform/file_descriptor.h"
#include "protocol/attach/frames.h"

namespace orlop::runtime {

class MessageQueue {
 public:
  // Every client has at most one frame of each kind under way.
  static constexpr std::size_t kMaxWaiting = 4 * protocol::kMaxClients;

  MessageQueue() = default;
  explicit MessageQueue(FileDescriptor socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  explicit operator bool() const { return static_cast<bool>(socket_); }
  // Errors: kClosed (the other side has gone), kLimit, kSystem. After an error: close the link.
  Result<void> send(protocol::Bytes frame, std::span<const int> descriptors = {});
  // The socket became writable.
  Result<void> flush();
  bool waiting() const { return !waiting_.empty(); }

 private:
  struct Waiting {
    protocol::Bytes frame;
    std::vector<FileDescriptor> descriptors;
  };
  FileDescriptor socket_;
  std::deque<Waiting> waiting_;
};

}  // namespace orlop::runtime
