// SPDX-License-Identifier: Apache-2.0
// Waits for many descriptors. Thread: one; nothing here is synchronised.
//
// Edge-triggered (EPOLLET): an event is reported once per change; the handler must read until it
// would block. A descriptor must be removed before it is closed when a duplicate of it lives
// anywhere (also in another process), else its events go on.
#pragma once

#include <sys/epoll.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "orlop/error.h"
#include "platform/file_descriptor.h"

namespace orlop {

struct EpollEvent {
  std::uint64_t tag = 0;
  std::uint32_t events = 0;  // EPOLLIN | EPOLLOUT | EPOLLHUP | EPOLLERR | EPOLLRDHUP
};

class EpollLoop {
 public:
  // Events of one wait; the rest comes with the next one.
  static constexpr std::size_t kMaxEvents = 256;

  EpollLoop() = default;
  static Result<EpollLoop> create();

  // events: EPOLLIN, EPOLLOUT, EPOLLET ...; EPOLLHUP and EPOLLERR come always. tag comes back with
  // each event. Errors: kWrongState (added already / not added), kSystem.
  Result<void> add(int fd, std::uint32_t events, std::uint64_t tag);
  Result<void> modify(int fd, std::uint32_t events, std::uint64_t tag);
  Result<void> remove(int fd);

  // Waits at most timeout_ns (0: only looks, kNever: no limit). Empty: the time passed, or a signal
  // came. The span is valid until the next wait.
  Result<std::span<const EpollEvent>> wait(MonoNs timeout_ns);

  int fd() const { return descriptor_.get(); }

 private:
  FileDescriptor descriptor_;
  std::vector<EpollEvent> ready_;
};

}  // namespace orlop
