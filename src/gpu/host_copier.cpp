// SPDX-License-Identifier: Apache-2.0
#include "gpu/host_copier.h"

#include <array>
#include <condition_variable>
#include <deque>
#include <limits>
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

// Runs the jobs of one direction, one after the other, on a thread of its own; a second one takes
// part in large ones.
class Lane {
 public:
  // Of fewer bytes than `shared_from` one thread takes all.
  Lane(const char* name, const char* second_name, std::uint64_t shared_from)
      : name_(name), second_name_(second_name), shared_from_(shared_from) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane() { CHECK(!thread_.joinable() && !second_.joinable()); }

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
    if (job->bytes() >= shared_from_ && !second_.joinable()) {
      // Without it the first one takes all.
      Result<std::thread> started = start_copier_thread(second_name_, [this] { help(); });
      if (started) second_ = std::move(*started);
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
    }
    changed_.notify_all();
    to_share_.notify_all();
    for (std::thread* thread : {&thread_, &second_}) {
      if (!thread->joinable()) continue;
      CHECK(thread->get_id() != std::this_thread::get_id(),
            "a copier was destroyed by the callback of its own job");
      thread->join();
    }
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ending_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      std::shared_ptr<HostJob> job = std::move(jobs_.front());
      jobs_.pop_front();
      if (job->bytes() >= shared_from_) {
        shared_ = job;
        to_share_.notify_one();
      }
      lock.unlock();
      job->run();
      job.reset();
      lock.lock();
      shared_.reset();
    }
  }

  void help() {
    std::unique_lock lock(mutex_);
    while (true) {
      to_share_.wait(lock, [&] { return ending_ || shared_ != nullptr; });
      if (shared_ == nullptr) return;
      std::shared_ptr<HostJob> job = std::exchange(shared_, nullptr);
      lock.unlock();
      job->help();
      job.reset();
      lock.lock();
    }
  }

  const char* const name_;
  const char* const second_name_;
  const std::uint64_t shared_from_;
  std::mutex mutex_;
  std::condition_variable changed_, to_share_;
  std::deque<std::shared_ptr<HostJob>> jobs_;
  std::shared_ptr<HostJob> shared_;  // runs, and nobody helps yet
  bool ending_ = false;
  std::thread thread_, second_;
};

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

class HostCopier final : public PageCopier {
 public:
  explicit HostCopier(const HostCopierOptions& options)
      : lanes_{Lane("orlop-backup", "", kNever),
               Lane("orlop-restore", "orlop-restore-2",
                    options.share ? options.shared_from_bytes : kNever)} {}
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
  std::array<Lane, 2> lanes_;  // by CopyDirection
};

}  // namespace

std::unique_ptr<PageCopier> make_host_copier() {
  return make_host_copier({.share = std::thread::hardware_concurrency() > 1});
}

std::unique_ptr<PageCopier> make_host_copier(const HostCopierOptions& options) {
  return std::make_unique<HostCopier>(options);
}

}  // namespace orlop::gpu
