// SPDX-License-Identifier: Apache-2.0
#include "cli/worker_pool.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>

#include "cli/interrupt.h"
#include "platform/clock.h"
#include "platform/system_error.h"

namespace orlop::cli {
namespace {

// Looks at the interrupt flag so often even if a signal comes between look and wait.
constexpr int kLongestPollMs = 200;
constexpr MonoNs kDeathGrace = 2 * kNsPerSecond;

std::unexpected<Error> interruption() {
  return fail(ErrorCode::kClosed, "interrupted");
}

}  // namespace

Result<WorkerPool> WorkerPool::start(const std::vector<std::vector<std::string>>& commands) {
  WorkerPool pool;
  for (const auto& command : commands) {
    auto pair = make_socket_pair();
    if (!pair) return std::unexpected(pair.error());
    SpawnRequest request;
    request.path = "/proc/self/exe";
    request.arguments = {"orlop"};
    request.arguments.insert(request.arguments.end(), command.begin(), command.end());
    request.keep = {{pair->second.get(), kWorkerLinkNumber}};
    request.parent_death_signal = SIGKILL;
    auto child = spawn(request);
    if (!child) return std::unexpected(child.error());
    pool.workers_.push_back({std::move(*child), WorkerLink(std::move(pair->first)), false});
  }
  return pool;
}

WorkerPool::~WorkerPool() {
  for (Worker& worker : workers_) {
    if (worker.child.pid == 0 || !worker.child.pidfd) continue;
    (void)worker.child.pidfd.send_signal(SIGKILL);
    (void)reap_child(worker.child.pidfd, kNever);
  }
}

Result<WorkerPool::Incoming> WorkerPool::next(MonoNs deadline) {
  for (;;) {
    if (interrupted()) return interruption();
    auto taken = take_waiting();
    if (!taken) return std::unexpected(taken.error());
    if (*taken) return std::move(**taken);
    const MonoNs now = monotonic_ns();
    if (now >= deadline) {
      return fail(ErrorCode::kDeadline, "the workers did not get on in time");
    }
    std::vector<pollfd> waited;
    for (const Worker& worker : workers_) {
      if (!worker.finished) waited.push_back({worker.link.fd(), POLLIN, 0});
    }
    const auto left_ms =
        static_cast<int>(std::min<MonoNs>((deadline - now) / kNsPerMs + 1, MonoNs{kLongestPollMs}));
    if (::poll(waited.data(), waited.size(), left_ms) < 0 && errno != EINTR) {
      return system_failure("poll(workers)", errno);
    }
  }
}

Result<std::optional<WorkerPool::Incoming>> WorkerPool::take_waiting() {
  for (std::size_t n = 0; n < workers_.size(); ++n) {
    const std::size_t i = (first_looked_at_ + n) % workers_.size();
    Worker& worker = workers_[i];
    if (worker.finished) continue;
    auto message = worker.link.receive(0);
    if (!message) return died(i, message.error().message);
    if (!*message) continue;
    if ((*message)->word == Word::kFailed) return died(i, (*message)->text());
    if ((*message)->word == Word::kDone) worker.finished = true;
    first_looked_at_ = (i + 1) % workers_.size();
    return Incoming{i, std::move(**message)};
  }
  return std::nullopt;
}

std::unexpected<Error> WorkerPool::died(std::size_t index, const std::string& words) {
  Worker& worker = workers_[index];
  worker.finished = true;
  std::string text = "worker " + std::to_string(index) + " failed: " + words;
  const auto ended = reap_child(worker.child.pidfd, monotonic_ns() + kDeathGrace);
  if (ended && *ended) {
    worker.child = {};
    text += " (" + to_string(**ended) + ")";
  }
  // Ctrl-C goes to the whole process group; who notices first is chance.
  if (interrupted()) return interruption();
  return fail(ErrorCode::kSystem, std::move(text));
}

Result<void> WorkerPool::tell_all(Word word, MonoNs deadline) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (auto sent = workers_[i].link.send(word, deadline); !sent) {
      return died(i, sent.error().message);
    }
  }
  return {};
}

Result<void> WorkerPool::join(MonoNs deadline) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    if (worker.child.pid == 0) continue;
    const auto ended = reap_child(worker.child.pidfd, deadline);
    if (!ended) return std::unexpected(ended.error());
    const std::string name = "worker " + std::to_string(i);
    if (!*ended) return fail(ErrorCode::kDeadline, name + " did not end");
    worker.child = {};
    if ((*ended)->by_signal || (*ended)->value != 0) {
      return fail(ErrorCode::kSystem, name + " ended with " + to_string(**ended));
    }
  }
  return {};
}

}  // namespace orlop::cli
