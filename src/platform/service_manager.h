// SPDX-License-Identifier: Apache-2.0
// The service manager that started this process (systemd, or a stand-in): tells it how we are, and
// keeps descriptors in its store, so that the next process of this service gets them back.
//
// Guarantees
//   * Never waits: messages that the manager's socket does not take now wait here, in order, at
//   most
//     kMaxWaiting of them. (sd_notify() of libsystemd blocks; decision 0009.) Each call sends those
//     first, so that an owner who is busy elsewhere need not flush().
//   * Reads the environment once and takes its variables out, so that no child believes to be the
//     service itself.
// Absent (nobody set NOTIFY_SOCKET): every call succeeds and does nothing.
// Thread: none; one owner. from_environment() changes the environment: before other threads exist.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "orlop/error.h"
#include "platform/file_descriptor.h"

namespace orlop {

struct StoredDescriptor {
  std::string name;
  FileDescriptor descriptor;
};

class ServiceManager {
 public:
  // A node with all its clients has 1,541 descriptors in the store, so twice that many messages.
  static constexpr std::size_t kMaxWaiting = 4'096;

  ServiceManager() = default;  // absent
  // NOTIFY_SOCKET, LISTEN_FDS and WATCHDOG_USEC (sd_notify(3), sd_listen_fds(3),
  // sd_watchdog_enabled(3)). Errors: kInvalidArgument (a socket address that is none), kSystem.
  static Result<ServiceManager> from_environment();

  bool present() const { return static_cast<bool>(socket_); }
  // To be petted at least this often; none: not asked for.
  std::optional<MonoNs> watchdog() const { return watchdog_; }
  // What the store had for us, once. Empty without a store.
  std::vector<StoredDescriptor> take_stored() { return std::exchange(stored_, {}); }

  // "READY=1", "STATUS=..." and so on; several separated by line feeds.
  Result<void> notify(std::string text);
  // Keeps a duplicate of fd under this name (ASCII without ':'). FDPOLL=0: the manager must not let
  // go of a pipe because its other end has closed. One that it has already, by the same open file,
  // is passed over by systemd: pass a descriptor of its own.
  Result<void> store(const std::string& name, int fd);
  // Lets go of all descriptors of this name.
  Result<void> remove(const std::string& name);
  // A descriptor that becomes readable (end-of-file) when the manager has read everything sent
  // before. None when absent.
  Result<FileDescriptor> barrier();

  // While waiting(): flush() when fd() is writable.
  int fd() const { return socket_.get(); }
  bool waiting() const { return !waiting_.empty(); }
  Result<void> flush();

 private:
  struct Message {
    std::string text;
    FileDescriptor descriptor;  // may be none
  };
  Result<void> send(Message message);
  Result<bool> try_send(const Message& message);

  FileDescriptor socket_;
  std::deque<Message> waiting_;
  std::vector<StoredDescriptor> stored_;
  std::optional<MonoNs> watchdog_;
};

// Whether both are descriptors of one open file (dup, or sent twice), not only of one file: the
// store would keep only the first. False where the kernel does not tell (kcmp refused, before
// Linux 6.10).
bool same_open_file(int a, int b);

// One line of STATUS= from any text.
std::string one_line(std::string_view text);

}  // namespace orlop
