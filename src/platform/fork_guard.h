// SPDX-License-Identifier: Apache-2.0
// How an object of liborlop knows that it woke up in a forked child, and how the node knows that no
// forked child of a dead client is left.
//
// ForkGuard: a word in a MADV_WIPEONFORK page holds the number of this process's life; in a forked
// child it reads 0, and later a higher number. Cost: one load and one compare, no syscall (getpid
// is one since glibc 2.25).
//
//   ForkGuard guard_ = ...create();                 // member of Client, made with it
//   if (guard_.in_forked_child()) return fail(ErrorCode::kForkedChild, ...);
//
// Fork pipe: made when the library is loaded. Every process forked from this one, and their
// children, inherit the write end and never close it; exec drops it. So its read end gives
// end-of-file exactly when this process and all that it forked (without exec) are gone. A forked
// child makes a pipe of its own at once (pthread_atfork), so that its own forks are counted for its
// own clients, and keeps its parent's write end.
#pragma once

#include <atomic>
#include <cstdint>

#include "orlop/error.h"
#include "platform/file_descriptor.h"

namespace orlop {

// A value: may be copied into every object that must know. Thread: any; usable in destructors of
// thread-local objects and in signal handlers.
class ForkGuard {
 public:
  // Never in a forked child.
  ForkGuard() = default;
  // Bound to the calling process. Errors: kSystem.
  static Result<ForkGuard> create();

  bool in_forked_child() const {
    return life_ != nullptr && life_->load(std::memory_order_relaxed) != mine_;
  }

 private:
  const std::atomic<std::uint64_t>* life_ = nullptr;
  std::uint64_t mine_ = 0;
};

// The read end of this process's fork pipe, to be sent to the node. Borrowed: owned by the library,
// never close it. Errors: kSystem (no pipe could be made: descriptors exhausted).
Result<int> fork_pipe_read_end();

// The same as an open file of its own, owned by the caller: what a client sends. A service manager
// keeps an open file once, under one name (node/keeper_store.h), and the clients of one process
// share its pipe. Only the pipe's user may open it anew, so the node cannot. Where this process may
// not either (no /proc, not dumpable), it is the shared one: enough for one client.
// Errors: kSystem.
Result<FileDescriptor> fork_pipe_to_send();

// True when every holder of the write end of this pipe has gone. Never waits and never reads: watch
// it with epoll for events 0 (EPOLLHUP comes always), not for EPOLLIN, which a peer that writes
// into its pipe could keep up. Errors: kCorrupt (not a pipe), kSystem.
Result<bool> fork_pipe_ended(int read_end);

}  // namespace orlop
