// SPDX-License-Identifier: Apache-2.0
#include "cli/demo_run.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>

#include "base/units.h"
#include "cli/demo_worker.h"
#include "cli/interrupt.h"
#include "cli/json_parts.h"
#include "cli/private_node.h"
#include "cli/report.h"
#include "cli/status_fields.h"
#include "cli/worker_pool.h"
#include "cli/workload.h"
#include "node/option_values.h"
#include "platform/clock.h"

namespace orlop::cli {
namespace {

using Json = nlohmann::ordered_json;

// Evictions of a node at rest: its refill ends within a few slices of its loop.
constexpr MonoNs kRestCheckNs = 20 * kNsPerMs;
constexpr MonoNs kRestLimit = 5 * kNsPerSecond;

std::uint64_t slots_evicted(const Json& status) {
  return status_fields::counter(status, "slots_evicted");
}

class DemoRun {
 public:
  DemoRun(const DemoOptions& options, Progress& progress)
      : options_(options), progress_(progress), begin_(monotonic_ns()) {}

  Result<DemoFindings> run() {
    if (auto done = start(); !done) return std::unexpected(done.error());
    if (auto done = serve_to_the_middle(); !done) return std::unexpected(done.error());
    if (auto done = kill_and_recover(); !done) return std::unexpected(done.error());
    if (auto done = serve_the_rest(); !done) return std::unexpected(done.error());
    if (auto done = finish(); !done) return std::unexpected(done.error());
    return std::move(found_);
  }

 private:
  MonoNs deadline() const { return begin_ + kDemoLimit; }

  Result<void> start() {
    progress_.say("starting a node of " + format_bytes(options_.capacity) + " and " +
                  std::to_string(options_.workers) + " worker processes");
    auto node = PrivateNode::start({"--capacity", node::exact_bytes(options_.capacity),
                                    "--max-value-len", node::exact_bytes(kDemoValueLen)},
                                   options_.keep, deadline());
    if (!node) return std::unexpected(node.error());
    node_.emplace(std::move(*node));
    std::vector<std::vector<std::string>> commands;
    for (std::uint32_t i = 0; i < options_.workers; ++i) {
      const DemoWorkerConfig config{.socket = node_->socket(),
                                    .index = i,
                                    .workers = options_.workers,
                                    .requests = options_.requests,
                                    .seed = options_.seed,
                                    .users = users_for(options_.capacity / kDemoValueLen),
                                    .value_len = kDemoValueLen};
      commands.push_back({"demo-worker", to_text(config)});
    }
    auto pool = WorkerPool::start(commands);
    if (!pool) return std::unexpected(pool.error());
    pool_.emplace(std::move(*pool));
    return wait_for_all(Word::kReady,
                        [](std::size_t, const WorkerMessage&) -> Result<void> { return {}; });
  }

  // Until every worker has said `word`; progress is shown meanwhile.
  template <class OnWord>
  Result<void> wait_for_all(Word word, OnWord on_word) {
    for (std::size_t missing = pool_->size(); missing > 0;) {
      auto incoming = pool_->next(deadline());
      if (!incoming) return std::unexpected(incoming.error());
      if (incoming->message.word == Word::kProgress) {
        if (auto shown = show_progress(*incoming); !shown) return shown;
        continue;
      }
      if (incoming->message.word != word) {
        return fail(ErrorCode::kCorrupt,
                    "worker " + std::to_string(incoming->worker) + " said something unexpected");
      }
      if (auto taken = on_word(incoming->worker, incoming->message); !taken) return taken;
      --missing;
    }
    return {};
  }

  Result<void> show_progress(const WorkerPool::Incoming& incoming) {
    const auto body = incoming.message.as<ProgressBody>();
    if (!body) return std::unexpected(body.error());
    progress_of_.resize(pool_->size());
    progress_of_[incoming.worker] = *body;
    ProgressBody sum;
    for (const ProgressBody& each : progress_of_) {
      sum.requests += each.requests;
      sum.pages += each.pages;
      sum.hit_pages += each.hit_pages;
    }
    progress_.update(sum.requests, options_.requests,
                     "hit rate " + percent(sum.hit_pages, sum.pages), monotonic_ns());
    return {};
  }

  Result<void> serve_to_the_middle() {
    if (auto told = pool_->tell_all(Word::kGo, deadline()); !told) return told;
    return wait_for_all(Word::kAtBarrier,
                        [](std::size_t, const WorkerMessage&) -> Result<void> { return {}; });
  }

  Result<void> kill_and_recover() {
    const auto before = status_at_rest();
    if (!before) return std::unexpected(before.error());
    if (auto done = mark(); !done) return done;
    const auto killed_at = node_->kill_server();
    if (!killed_at) return std::unexpected(killed_at.error());
    progress_.say("server killed with SIGKILL; " + format_count(marked_) +
                  " committed pages must survive");
    if (auto done = pool_->tell_all(Word::kKilled, deadline()); !done) return done;
    if (auto done = await_service(*killed_at); !done) return done;
    progress_.say("first new page stored " + format_duration_ns(found_.restart_ns) +
                  " after the kill");
    if (auto done = read_back(); !done) return done;
    const auto after = node_->status();
    if (!after) return std::unexpected(after.error());
    judge_restart(*before, *after);
    return pool_->tell_all(Word::kResume, deadline());
  }

  // Once the workers put nothing, the node refills its reserve and then evicts nothing either.
  Result<Json> status_at_rest() {
    const MonoNs limit = std::min(deadline(), monotonic_ns() + kRestLimit);
    auto last = node_->status();
    while (last) {
      if (interrupted()) return fail(ErrorCode::kClosed, "interrupted");
      std::this_thread::sleep_for(std::chrono::nanoseconds(kRestCheckNs));
      auto now = node_->status();
      if (!now) return now;
      if (slots_evicted(*now) == slots_evicted(*last) || monotonic_ns() > limit) return now;
      last = std::move(now);
    }
    return last;
  }

  Result<void> mark() {
    if (auto told = pool_->tell_all(Word::kMark, deadline()); !told) return told;
    return wait_for_all(Word::kMarked,
                        [this](std::size_t, const WorkerMessage& message) -> Result<void> {
                          const auto body = message.as<MarkedBody>();
                          if (!body) return std::unexpected(body.error());
                          found_.recorded += body->recorded;
                          found_.evicted_before += body->recorded - body->resident;
                          marked_ += body->resident;
                          return {};
                        });
  }

  Result<void> await_service(MonoNs killed_at) {
    MonoNs first_stored = kNever;
    const auto waited = wait_for_all(
        Word::kServedAgain,
        [this, &first_stored](std::size_t, const WorkerMessage& message) -> Result<void> {
          const auto body = message.as<OutageBody>();
          if (!body) return std::unexpected(body.error());
          first_stored = std::min(first_stored, body->first_stored_at);
          found_.longest_gap_ns = std::max(found_.longest_gap_ns, body->longest_gap);
          found_.outage_hits += body->hits;
          return {};
        });
    if (!waited) return waited;
    found_.restart_ns = first_stored - killed_at;
    return {};
  }

  Result<void> read_back() {
    if (auto told = pool_->tell_all(Word::kReadBackNow, deadline()); !told) return told;
    return wait_for_all(Word::kReadBack,
                        [this](std::size_t, const WorkerMessage& message) -> Result<void> {
                          const auto body = message.as<ReadBackBody>();
                          if (!body) return std::unexpected(body.error());
                          found_.read_back += body->read_back;
                          missing_ += body->missing;
                          return {};
                        });
  }

  void judge_restart(const Json& before, const Json& after) {
    found_.evicted_pages += slots_evicted(before);  // counters begin anew with each server
    found_.evicted_after = std::min(missing_, slots_evicted(after));
    found_.lost = missing_ - found_.evicted_after;
    if (found_.lost > 0) {
      found_.complaints.push_back(format_count(found_.lost) +
                                  " committed pages are gone and were not evicted");
    }
    using status_fields::at;
    if (at(after, "incarnation") == at(before, "incarnation")) {
      found_.complaints.push_back("the server was not restarted");
    }
    if (at(after, "segment_id") != at(before, "segment_id")) {
      found_.complaints.push_back("the new server began with empty memory");
    }
    if (marked_ > 0 && found_.outage_hits == 0) {
      found_.complaints.push_back("no local hit while no server lived");
    }
  }

  Result<void> serve_the_rest() {
    const auto served = wait_for_all(
        Word::kDone, [this](std::size_t, const WorkerMessage& message) -> Result<void> {
          const auto body = message.as<TallyBody>();
          if (!body) return std::unexpected(body.error());
          found_.tally.add(*body);
          return {};
        });
    if (!served) return served;
    return pool_->join(deadline());
  }

  Result<void> finish() {
    const auto last = node_->status();
    if (!last) return std::unexpected(last.error());
    found_.evicted_pages += slots_evicted(*last);
    progress_.finish();
    if (options_.keep) {
      found_.kept_folder = node_->folder();
      std::ofstream(node_->folder() + "/status.json") << json_text(*last) << "\n";
    }
    if (auto stopped = node_->stop(); !stopped) {
      found_.complaints.push_back(stopped.error().message);
    }
    if (found_.tally.mismatches() > 0) {
      found_.complaints.push_back(format_count(found_.tally.mismatches()) +
                                  " pages were read with wrong bytes");
    }
    if (found_.tally.requests != options_.requests) {
      found_.complaints.push_back("only " + format_count(found_.tally.requests) +
                                  " requests were served");
    }
    found_.total_ns = monotonic_ns() - begin_;
    return {};
  }

  const DemoOptions options_;
  Progress& progress_;
  const MonoNs begin_;
  // The pool is declared after the node: workers end first.
  std::optional<PrivateNode> node_;
  std::optional<WorkerPool> pool_;
  std::vector<ProgressBody> progress_of_;
  std::uint64_t marked_ = 0;
  std::uint64_t missing_ = 0;
  DemoFindings found_;
};

}  // namespace

Result<DemoFindings> run_demo(const DemoOptions& options, Progress& progress) {
  // Json::at throws on a status of another shape: a bug, said as such.
  try {
    return DemoRun(options, progress).run();
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorCode::kCorrupt, std::string("/status.json: ") + error.what());
  }
}

}  // namespace orlop::cli
