// SPDX-License-Identifier: Apache-2.0
// One worker of rows kill_*: reads its working set without pause and compares every byte, while a
// second thread puts new pages; its server dies under it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "cli/bench_bed.h"
#include "cli/bench_worker.h"
#include "cli/page_session.h"
#include "cli/worker_process.h"
#include "platform/clock.h"

namespace orlop::cli {
namespace {

constexpr std::uint32_t kWorkingSeries = 200, kPutSeries = 300;
constexpr std::size_t kGetPages = 8;
constexpr std::size_t kFillPages = 256;
constexpr std::size_t kReadBackPages = 64;
constexpr std::size_t kExistsPages = 8192;

// Puts new pages until it is told to stop, on a thread of its own: a put waits for the server, and
// the reads beside it must not.
class Putter {
 public:
  Putter(Client& client, const Namespace& ns, const BenchWorkerConfig& config)
      : client_(client),
        session_(client, ns, config.index, kBenchWait),
        config_(config),
        known_incarnation_(client.incarnation()),
        thread_([this] { run(); }) {}
  ~Putter() { stop(); }

  void stop() {
    stop_.store(true, std::memory_order_relaxed);
    if (thread_.joinable()) thread_.join();
  }
  // When the first put begun under another server than before was stored; 0: not yet. Once it is
  // given, the present server is the one before.
  MonoNs take_first_stored_at() {
    const MonoNs at = first_stored_at_.load();
    if (at == 0) return 0;
    known_incarnation_.store(client_.incarnation());  // first: the putter looks at both
    first_stored_at_.store(0);
    return at;
  }
  // Keys stored so far, in the order of their answers.
  std::vector<PageKey> stored() const {
    const std::lock_guard lock(mutex_);
    return stored_;
  }
  // After stop().
  std::uint64_t not_stored() const { return next_ - stored_.size(); }
  const std::optional<Error>& error() const { return error_; }

 private:
  void run() {
    std::vector<PageKey> keys, stored;
    while (!stop_.load(std::memory_order_relaxed)) {
      keys.clear();
      stored.clear();
      for (std::uint64_t i = 0; i < config_.put_batch; ++i) {
        keys.push_back(bench_key(kPutSeries + config_.index, next_++));
      }
      const std::uint64_t under = client_.incarnation();
      const auto count = session_.store(keys, std::nullopt, &stored);
      if (!count) {
        error_ = count.error();
        return;
      }
      if (*count > 0 && under != known_incarnation_.load() && first_stored_at_.load() == 0) {
        first_stored_at_.store(monotonic_ns());
      }
      {
        const std::lock_guard lock(mutex_);
        stored_.insert(stored_.end(), stored.begin(), stored.end());
      }
      if (config_.put_pause_us != 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(config_.put_pause_us));
      }
    }
  }

  Client& client_;
  PageSession session_;
  const BenchWorkerConfig config_;
  std::atomic<std::uint64_t> known_incarnation_;
  std::atomic<MonoNs> first_stored_at_{0};
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;  // stored_
  std::vector<PageKey> stored_;
  std::uint64_t next_ = 0;
  std::optional<Error> error_;
  std::thread thread_;  // last: starts when the others are there
};

class KillWorker {
 public:
  KillWorker(const BenchWorkerConfig& config, WorkerLink& link, AttachedWorker attached)
      : config_(config),
        link_(link),
        client_(std::move(attached.client)),
        ns_(attached.ns),
        session_(client_, ns_, config.index, kBenchWait),
        choice_(config.index + 1) {}

  Result<void> run() {
    if (auto stored = store_working_set(); !stored) return stored;
    if (auto told = send(Word::kReady); !told) return told;
    if (auto told = await_word(link_, Word::kGo); !told) return told;
    putter_.emplace(client_, ns_, config_);
    last_hit_ = monotonic_ns();
    for (;;) {
      const auto message = link_.receive(0);
      if (!message) return std::unexpected(message.error());
      if (*message) {
        if ((*message)->word == Word::kBenchQuiet) return finish();
        if (auto done = obey((*message)->word); !done) return done;
        last_hit_ = monotonic_ns();  // what we did ourselves is no gap
      }
      if (auto done = read_some(); !done) return done;
    }
  }

 private:
  template <class... Body>
  Result<void> send(Word word, const Body&... body) {
    return link_.send(word, body..., monotonic_ns() + kWordLimit);
  }

  Result<void> store_working_set() {
    for (std::uint64_t i = 0; i < config_.window_pages; ++i) {
      working_.push_back(bench_key(kWorkingSeries + config_.index, i));
    }
    for (std::size_t first = 0; first < working_.size(); first += kFillPages) {
      const auto part =
          std::span(working_).subspan(first, std::min(kFillPages, working_.size() - first));
      const auto stored = session_.store(part, std::nullopt);
      if (!stored) return std::unexpected(stored.error());
      if (*stored != part.size()) {
        return fail(ErrorCode::kSystem, "a page of the working set was not stored");
      }
    }
    return {};
  }

  Result<void> obey(Word word) {
    switch (word) {
      case Word::kBenchWindow:
        return end_window();
      case Word::kBenchLook:
        return look();
      default:
        return fail(ErrorCode::kCorrupt, "the parent said something unexpected");
    }
  }

  Result<void> end_window() {
    window_.first_stored_at = putter_->take_first_stored_at();
    if (auto told = send(Word::kBenchWindowEnded, window_); !told) return told;
    window_ = {};
    return {};
  }

  Result<void> read_some() {
    const std::size_t first = choice_.uniform(working_.size() - kGetPages);
    const auto hits = session_.restore(std::span(working_).subspan(first, kGetPages));
    if (!hits) return std::unexpected(hits.error());
    window_.hits += *hits;
    window_.missed += kGetPages - *hits;
    if (*hits == 0) return {};
    const MonoNs now = monotonic_ns();
    window_.longest_gap = std::max(window_.longest_gap, now - last_hit_);
    last_hit_ = now;
    return {};
  }

  Result<std::vector<bool>> present(const std::vector<PageKey>& keys) {
    std::vector<bool> all;
    for (std::size_t first = 0; first < keys.size(); first += kExistsPages) {
      const auto last =
          keys.begin() + static_cast<std::ptrdiff_t>(std::min(keys.size(), first + kExistsPages));
      const std::vector<PageKey> part(keys.begin() + static_cast<std::ptrdiff_t>(first), last);
      const auto found = client_.exists(ns_, texts_of(part));
      if (!found) return std::unexpected(found.error());
      all.insert(all.end(), found->present.begin(), found->present.end());
    }
    return all;
  }

  // All pages that this worker knows to be stored: the working set and what was put since.
  std::vector<PageKey> known_pages() const {
    std::vector<PageKey> pages = working_;
    const auto stored = putter_->stored();
    pages.insert(pages.end(), stored.begin(), stored.end());
    return pages;
  }

  Result<void> look() {
    auto found = present(known_pages());
    if (!found) return std::unexpected(found.error());
    looked_ = std::move(*found);
    return send(Word::kBenchLooked,
                BenchLookedBody{static_cast<std::uint64_t>(std::ranges::count(looked_, true))});
  }

  Result<void> finish() {
    putter_->stop();
    if (putter_->error()) return std::unexpected(*putter_->error());
    // The node comes to rest before it is looked at: the parent says when.
    if (auto told = send(Word::kBenchLooked, BenchLookedBody{}); !told) return told;
    if (auto told = await_word(link_, Word::kBenchLook); !told) return told;
    const auto body = balance();
    if (!body) return std::unexpected(body.error());
    if (auto told = send(Word::kBenchBalance, *body); !told) return told;
    if (auto told = await_word(link_, Word::kBenchEnd); !told) return told;
    return send(Word::kDone);
  }

  Result<BenchBalanceBody> balance() {
    const std::vector<PageKey> pages = known_pages();
    const auto now = present(pages);
    if (!now) return std::unexpected(now.error());
    BenchBalanceBody body;
    body.stored = pages.size();
    body.not_stored = putter_->not_stored();
    for (std::size_t i = 0; i < pages.size(); ++i) {
      if ((*now)[i]) continue;
      ++body.missing;
      if (i >= looked_.size() || looked_[i]) ++body.missing_since_look;
    }
    if (auto read = read_back(pages, *now); !read) return std::unexpected(read.error());
    body.wrong = session_.tally().mismatches();
    return body;
  }

  Result<void> read_back(const std::vector<PageKey>& pages, const std::vector<bool>& there) {
    std::vector<PageKey> part;
    for (std::size_t i = 0; i < pages.size(); ++i) {
      if (there[i]) part.push_back(pages[i]);
      if (part.size() < kReadBackPages && i + 1 < pages.size()) continue;
      if (part.empty()) continue;
      const auto read = session_.restore(part);
      if (!read) return std::unexpected(read.error());
      if (*read != part.size() && session_.tally().mismatches() == 0) {
        return fail(ErrorCode::kSystem, "a page was there and then not, in a node at rest");
      }
      part.clear();
    }
    return {};
  }

  const BenchWorkerConfig config_;
  WorkerLink& link_;
  Client client_;
  Namespace ns_;
  PageSession session_;
  Rng choice_;
  std::vector<PageKey> working_;
  std::optional<Putter> putter_;
  BenchWindowBody window_;
  MonoNs last_hit_ = 0;
  std::vector<bool> looked_;
};

}  // namespace

int bench_kill_worker_main(const std::string& config_text) {
  return run_worker([&config_text](WorkerLink& link) -> Result<void> {
    const auto config = parse_bench_worker_config(config_text);
    if (!config) return std::unexpected(config.error());
    auto attached =
        attach_bench_client(config->socket, "bench-worker-" + std::to_string(config->index));
    if (!attached) return std::unexpected(attached.error());
    return KillWorker(*config, link, std::move(*attached)).run();
  });
}

}  // namespace orlop::cli
