// SPDX-License-Identifier: Apache-2.0
// Messages and descriptors between processes of one machine (Unix sockets, SOCK_SEQPACKET: message
// borders are kept, order is kept, nothing is lost while the connection lives).
//
// Guarantees: all sockets are non-blocking and close-on-exec; received descriptors are
// close-on-exec and are closed on every error; no SIGPIPE.
// Thread: none; one thread a socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "orlop/error.h"
#include "platform/file_descriptor.h"
#include "platform/file_lock.h"

namespace orlop {

// sun_path holds 108 bytes with the final 0 (Linux).
inline constexpr std::size_t kMaxSocketPathBytes = 107;
// Below the default send buffer (212,992 bytes), so a message always fits an empty one.
inline constexpr std::size_t kMaxMessageBytes = 64 * 1024;
// Far below the kernel's SCM_MAX_FD (253).
inline constexpr std::size_t kMaxMessageDescriptors = 32;

// A socket at a path, mode 0660. Closing it removes the path, if it is still ours.
class UnixListener {
 public:
  UnixListener() = default;
  UnixListener(UnixListener&& other) noexcept { swap(other); }
  UnixListener& operator=(UnixListener&& other) noexcept {
    UnixListener taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~UnixListener() { close(); }

  // lock: held for this path (FileLock::acquire(path)); it decides between a stale socket, which is
  // replaced, and one that lives. Errors: kInvalidArgument (path too long: limit and path),
  // kAddressInUse (somebody answers there, or the path is no socket), kSystem.
  static Result<UnixListener> listen(const std::string& path, const FileLock& lock);
  // Takes a listening socket that came from another process; never removes the path.
  static Result<UnixListener> adopt(FileDescriptor descriptor);

  int fd() const { return descriptor_.get(); }
  const FileDescriptor& descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }
  explicit operator bool() const { return static_cast<bool>(descriptor_); }

  // Next waiting connection; none if there is none. Errors: kLimit (descriptors exhausted: the
  // connection goes on waiting), kSystem.
  Result<std::optional<FileDescriptor>> accept();

  // Stops listening and removes the path.
  void close();
  // Stops owning the path: another process (that was given the descriptor) goes on listening.
  void forget_path() { path_.clear(); }

 private:
  void swap(UnixListener& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(path_, other.path_);
    std::swap(device_, other.device_);
    std::swap(inode_, other.inode_);
  }
  FileDescriptor descriptor_;
  std::string path_;  // empty: not ours to remove
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
};

// deadline: CLOCK_MONOTONIC; waits only while the listener's backlog is full.
// Errors: kInvalidArgument (path too long), kNoNode (no socket there, or nobody listens), kRefused
// (permission), kDeadline, kSystem.
Result<FileDescriptor> connect_unix(const std::string& path, MonoNs deadline);

// Two connected ends.
struct SocketPair {
  FileDescriptor first;
  FileDescriptor second;
};
Result<SocketPair> make_socket_pair();

// Sends one message, or nothing. true: sent; false: the peer's queue is full, try again when
// writable. The descriptors stay ours. Errors: kInvalidArgument (empty, or over a limit), kClosed
// (the peer has gone), kSystem.
Result<bool> send_message(int socket, std::span<const std::byte> bytes,
                          std::span<const int> descriptors = {});

struct ReceivedMessage {
  std::vector<std::byte> bytes;
  std::vector<FileDescriptor> descriptors;
  bool descriptors_lost = false;  // only with LostDescriptors::kTell; none is in the list then
};
// What becomes of a message whose descriptors found no place: more than max_descriptors, or this
// process has as many open as it may (MSG_CTRUNC).
enum class LostDescriptors {
  kFail,  // an error; the message is lost, so close the connection
  kTell,  // its bytes come without them, for who can answer that it did not get them
};
std::string lost_descriptors_text();  // with the remedy
enum class ReceiveState { kMessage, kWouldBlock, kEnd };
struct Received {
  ReceiveState state = ReceiveState::kWouldBlock;
  ReceivedMessage message;  // kMessage only
};
// Takes one message. kEnd: the peer has gone (or sent an empty message, which this room never
// does). Errors: kLimit (longer than max_bytes, or MSG_CTRUNC: more than max_descriptors, or
// descriptors of this process are exhausted; the message is lost, so close the connection),
// kSystem.
Result<Received> receive_message(int socket, std::size_t max_bytes = kMaxMessageBytes,
                                 std::size_t max_descriptors = kMaxMessageDescriptors,
                                 LostDescriptors lost = LostDescriptors::kFail);

}  // namespace orlop
