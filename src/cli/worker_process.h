// SPDX-License-Identifier: Apache-2.0
// What every worker process of `demo` and `replay` begins and ends with.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/worker_link.h"
#include "orlop/client.h"

namespace orlop::cli {

struct AttachedWorker {
  Client client;
  Namespace ns;
};

// Attaches to the node and opens the namespace of our workloads ("orlop-demo").
// put_limit: the client's call budget. Errors: the last attach error at the deadline; of
// open_namespace.
Result<AttachedWorker> attach_worker(const std::string& socket, const std::string& name,
                                     std::uint32_t value_len, Milliseconds put_limit,
                                     MonoNs deadline);

// Runs body with this process's link; tells the parent about its error (kFailed). Returns the exit
// status of the process.
int run_worker(const std::function<Result<void>(WorkerLink&)>& body);

// Longest wait of a worker for its parent's next word, or for the parent to take one of its own.
inline constexpr MonoNs kWordLimit = 60 * kNsPerSecond;

// Waits for exactly this word. Errors: kDeadline, kClosed (the parent has gone), kCorrupt
// (another).
Result<void> await_word(WorkerLink& link, Word word);

}  // namespace orlop::cli
