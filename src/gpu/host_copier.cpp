// SPDX-License-Identifier: Apache-2.0
#include "gpu/host_copier.h"

#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/check.h"
#include "gpu/copier_thread.h"
#include "gpu/copy_request.h"
#include "gpu/host_job.h"

namespace orlop::gpu {
namespace {

// Runs the jobs of one direction, one after the other, on a thread of its own.
class Lane {
 public:
  explicit Lane(const char* name) : name_(name) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane() { CHECK(!thread_.joinable()); }

  Result<void> add(std::shared_ptr<HostJob> job) {
    const std::lock_guard lock(mutex_);
    if (ending_) return fail(ErrorCode::kClosed, "the copier is being closed");
    if (jobs_.size() >= kMostQueuedJobs) {
      return fail(ErrorCode::kLimit,
                  std::to_string(kMostQueuedJobs) + " copies are waiting; wait for some of them");
    }
    if (!thread_.joinable()) {
      Result<std::thread> started = start_copier_thread(name_, [this] { run(); });
      if (!started) return std::unexpected(std::move(started.error()));
      thread_ = std::move(*started);
    }
    jobs_.push_back(std::move(job));
    changed_.notify_one();
    return {};
  }

  // Runs what is queued, then ends.
  void end() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      changed_.notify_one();
    }
    if (!thread_.joinable()) return;
    CHECK(thread_.get_id() != std::this_thread::get_id(),
          "a copier was destroyed by the callback of its own job");
    thread_.join();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ending_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      std::shared_ptr<HostJob> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job->run();
      job.reset();
      lock.lock();
    }
  }

  const char* const name_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<HostJob>> jobs_;
  bool ending_ = false;
  std::thread thread_;
};

class HostCopier final : public PageCopier {
 public:
  ~HostCopier() override {
    for (Lane& lane : lanes_) lane.end();
  }
  EngineKind kind() const override { return EngineKind::kHost; }

  Result<std::shared_ptr<CopyJob>> submit(const CopyRequest& request, OnCopyDone on_done) override {
    auto strips = check_request(request);
    if (!strips) return std::unexpected(std::move(strips.error()));
    auto job = std::make_shared<HostJob>(request, std::move(*strips), std::move(on_done));
    Lane& lane = lanes_[static_cast<std::size_t>(request.direction)];
    if (Result<void> added = lane.add(job); !added) return std::unexpected(added.error());
    return job;
  }

 private:
  std::array<Lane, 2> lanes_{Lane("orlop-backup"), Lane("orlop-restore")};
};

}  // namespace

std::unique_ptr<PageCopier> make_host_copier() {
  return std::make_unique<HostCopier>();
}

}  // namespace orlop::gpu
