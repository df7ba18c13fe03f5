// SPDX-License-Identifier: Apache-2.0
#include "cli/replay_run.h"

#include <filesystem>
#include <utility>

#include "base/units.h"
#include "cli/private_node.h"
#include "cli/replay_memory.h"
#include "cli/replay_worker.h"
#include "cli/report.h"
#include "cli/status_fields.h"
#include "cli/trace.h"
#include "cli/worker_pool.h"
#include "node/option_values.h"
#include "platform/clock.h"

namespace orlop::cli {
namespace {

constexpr MonoNs kStartLimit = 60 * kNsPerSecond;

std::vector<std::string> serve_arguments(const ReplayOptions& options, const ReplayMemory& memory) {
  const std::string all = node::exact_bytes(memory.capacity);
  // No caps: a trace may ask for any part of the cache at once.
  return {"--capacity",      all,
          "--max-value-len", node::exact_bytes(options.value_bytes),
          "--reserve",       node::exact_bytes(memory.reserve_bytes),
          "--policy",        options.policy,
          "--max-pinned",    all,
          "--max-prepared",  all};
}

// Until every worker has said `word`; shows progress, takes tallies.
class Watch {
 public:
  Watch(WorkerPool& pool, std::uint64_t requests, Progress& progress, TallyBody& tally)
      : pool_(pool),
        requests_(requests),
        progress_(progress),
        tally_(tally),
        progress_of_(pool.size()) {}

  Result<void> until(Word word) {
    for (std::size_t missing = pool_.size(); missing > 0;) {
      const auto incoming = pool_.next(monotonic_ns() + kReplayStallLimit);
      if (!incoming) return std::unexpected(incoming.error());
      if (auto taken = take(*incoming); !taken) return taken;
      if (incoming->message.word == word) --missing;
    }
    return {};
  }

 private:
  Result<void> take(const WorkerPool::Incoming& incoming) {
    if (incoming.message.word == Word::kDone) {
      const auto body = incoming.message.as<TallyBody>();
      if (!body) return std::unexpected(body.error());
      tally_.add(*body);
    } else if (incoming.message.word == Word::kProgress) {
      const auto body = incoming.message.as<ProgressBody>();
      if (!body) return std::unexpected(body.error());
      progress_of_[incoming.worker] = *body;
      show();
    }
    return {};
  }

  void show() {
    ProgressBody sum;
    for (const ProgressBody& each : progress_of_) {
      sum.requests += each.requests;
      sum.pages += each.pages;
      sum.hit_pages += each.hit_pages;
    }
    progress_.update(sum.requests, requests_, "hit rate " + percent(sum.hit_pages, sum.pages),
                     monotonic_ns());
  }

  WorkerPool& pool_;
  std::uint64_t requests_;
  Progress& progress_;
  TallyBody& tally_;
  std::vector<ProgressBody> progress_of_;
};

Result<WorkerPool> start_workers(const ReplayOptions& options, const PrivateNode& node) {
  std::vector<std::vector<std::string>> commands;
  for (std::uint32_t i = 0; i < options.workers; ++i) {
    const ReplayWorkerConfig config{.socket = node.socket(),
                                    .path = std::filesystem::absolute(options.path),
                                    .index = i,
                                    .workers = options.workers,
                                    .value_len = options.value_bytes,
                                    .limit = options.limit};
    commands.push_back({"replay-worker", to_text(config)});
  }
  return WorkerPool::start(commands);
}

Result<void> replay(const ReplayOptions& options, const Trace& trace, const PrivateNode& node,
                    Progress& progress, ReplayFindings& found) {
  auto pool = start_workers(options, node);
  if (!pool) return std::unexpected(pool.error());
  Watch watch(*pool, trace.requests.size(), progress, found.tally);
  if (auto ready = watch.until(Word::kReady); !ready) return ready;
  const MonoNs begin = monotonic_ns();
  if (auto told = pool->tell_all(Word::kGo, begin + kReplayStallLimit); !told) return told;
  if (auto done = watch.until(Word::kDone); !done) return done;
  found.replay_ns = monotonic_ns() - begin;
  return pool->join(monotonic_ns() + kReplayStallLimit);
}

void judge(const ReplayOptions& options, const Trace& trace, ReplayFindings& found) {
  if (found.tally.mismatches() > 0) {
    found.complaints.push_back(format_count(found.tally.mismatches()) +
                               " pages were read with wrong bytes");
  }
  if (found.tally.requests != trace.requests.size()) {
    found.complaints.push_back("only " + format_count(found.tally.requests) + " of " +
                               format_count(trace.requests.size()) + " requests were served");
  }
  // One worker never outruns the node: touches are drained before victims are chosen.
  if (options.workers == 1 && found.touches_lost > 0) {
    found.complaints.push_back(format_count(found.touches_lost) + " touches were lost");
  }
}

}  // namespace

Result<ReplayFindings> run_replay(const ReplayOptions& options, Progress& progress) {
  const auto trace = read_trace(options.path, options.limit);
  if (!trace) return std::unexpected(trace.error());
  const auto memory = replay_memory(options.capacity_pages,
                                    trace->longest_request * options.workers, options.value_bytes);
  if (!memory) return std::unexpected(memory.error());
  auto node = PrivateNode::start(serve_arguments(options, *memory), /*keep_folder=*/false,
                                 monotonic_ns() + kStartLimit);
  if (!node) return std::unexpected(node.error());
  ReplayFindings found;
  if (auto done = replay(options, *trace, *node, progress, found); !done) {
    return std::unexpected(done.error());
  }
  const auto status = node->status();
  if (!status) return std::unexpected(status.error());
  found.evicted_pages = status_fields::counter(*status, "slots_evicted");
  found.touches_lost = status_fields::counter(*status, "touches_lost");
  if (auto stopped = node->stop(); !stopped) found.complaints.push_back(stopped.error().message);
  judge(options, *trace, found);
  return found;
}

}  // namespace orlop::cli
