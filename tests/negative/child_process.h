// SPDX-License-Identifier: Apache-2.0
// A forked child that can be killed or stopped where it says it is. What it tells lies in memory
// that outlives it. Dies with the test process.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>

#include "orlop/error.h"

namespace orlop::negative_test {

// Shared between test and child; zeroed at the start.
struct Board {
  std::atomic<std::uint32_t> here;    // 1: the child is at its point
  std::atomic<std::uint32_t> go;      // 1, by the test: go on
  std::atomic<std::uint64_t> rounds;  // of children that repeat something
  std::atomic<std::uint64_t> wrong;   // pages with other bytes than were put
  std::atomic<std::uint32_t> forked;  // pid of the child's own child
  std::atomic<std::uint32_t> has_error;
  ErrorCode code;
  char message[512];

  void arrive_and_wait();  // at the point, until the test says go
  void tell(const Error& error);
  Error told() const { return {code, message}; }
};

class ChildProcess {
 public:
  // body's return value is the exit status. It runs in a copy of this process: it must not assert,
  // and nothing of the parent is torn down there.
  explicit ChildProcess(const std::function<int(Board&)>& body);
  ~ChildProcess();  // killed if it still lives
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  Board& board() { return *board_; }
  pid_t pid() const { return pid_; }
  bool wait_here();  // until the child is at its point
  void signal(int number) const;
  void kill();      // SIGKILL, and waits for its end
  int wait_exit();  // its exit status; -1 for any other end, also when it had to be killed

 private:
  Board* board_;
  pid_t pid_ = 0;
  bool reaped_ = false;
};

// What a call answers that is made in a forked child of this process.
Result<void> in_forked_child(const std::function<Result<void>()>& call);

}  // namespace orlop::negative_test
