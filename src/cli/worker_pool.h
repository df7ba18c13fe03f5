// SPDX-License-Identifier: Apache-2.0
// The worker processes of `demo` and `replay`, seen from their parent: this program started again
// with a hidden subcommand, each with a link (worker_link.h).
//
// Guarantees: no worker outlives the pool or this process (parent death signal of the thread that
// started them: start from main's thread).
// Thread: one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/worker_link.h"
#include "platform/process.h"

namespace orlop::cli {

class WorkerPool {
 public:
  // One worker for every entry: its arguments after the program's name.
  static Result<WorkerPool> start(const std::vector<std::vector<std::string>>& commands);
  WorkerPool(WorkerPool&&) = default;
  WorkerPool& operator=(WorkerPool&&) = delete;
  ~WorkerPool();

  std::size_t size() const { return workers_.size(); }

  struct Incoming {
    std::size_t worker = 0;
    WorkerMessage message;
  };
  // Next message of any worker. Errors: kDeadline; kClosed (interrupted by Ctrl-C); kSystem (a
  // worker failed or died: which, and its words).
  Result<Incoming> next(MonoNs deadline);
  Result<void> tell_all(Word word, MonoNs deadline);
  // Waits until all have ended by themselves. Errors: as next; kSystem if one did not end with 0.
  Result<void> join(MonoNs deadline);

 private:
  struct Worker {
    Child child;
    WorkerLink link;
    bool finished = false;  // its last message was taken, or it was reaped
  };
  WorkerPool() = default;
  Result<std::optional<Incoming>> take_waiting();
  std::unexpected<Error> died(std::size_t worker, const std::string& words);

  std::vector<Worker> workers_;
  std::size_t first_looked_at_ = 0;  // rotates, so that a chatty worker hides nobody
};

}  // namespace orlop::cli
