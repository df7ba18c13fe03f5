// SPDX-License-Identifier: Apache-2.0
// Doorbell: an eventfd, non-blocking and close-on-exec, that wakes a sleeper in another process.
//
// Guarantees: a ring after a drain makes the descriptor readable until the next drain; rings add up
// and are never lost. Thread: any number of ringers; one sleeper.
// Note: O_NONBLOCK belongs to the open file, so a holder can turn it off for all (same trust as the
// value area).
#pragma once

#include "base/ids.h"
#include "orlop/error.h"
#include "platform/file_descriptor.h"

namespace orlop {

class EventFd {
 public:
  EventFd() = default;
  static Result<EventFd> create();
  // Takes one that came from another process; makes it non-blocking. Errors: kCorrupt (not an
  // eventfd).
  static Result<EventFd> adopt(FileDescriptor descriptor);

  int fd() const { return descriptor_.get(); }
  const FileDescriptor& descriptor() const { return descriptor_; }
  explicit operator bool() const { return static_cast<bool>(descriptor_); }

  // Wakes the sleeper. A full counter is fine: the sleeper is awake then.
  void ring() const;
  // Forgets all rings so far; true if there were any.
  bool drain() const;
  // Waits for a ring (true) or the deadline (false); does not drain. deadline: CLOCK_MONOTONIC.
  Result<bool> wait(MonoNs deadline) const;

 private:
  FileDescriptor descriptor_;
};

}  // namespace orlop
