// SPDX-License-Identifier: Apache-2.0
#include "cli/demo_worker.h"

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <unordered_set>
#include <vector>

#include "cli/json_parts.h"
#include "cli/page_session.h"
#include "cli/worker_process.h"
#include "cli/workload.h"
#include "platform/clock.h"

namespace orlop::cli {
namespace {

constexpr MonoNs kAttachLimit = 20 * kNsPerSecond;
constexpr MonoNs kProgressNs = 100 * kNsPerMs;
// A put in ordinary work: far longer than any server takes, so that a busy machine costs no pages.
constexpr Milliseconds kPutLimit{10'000};
// A put while no server lives is tried again this often.
constexpr Milliseconds kProbeLimit{20};
constexpr MonoNs kOutageLimit = 60 * kNsPerSecond;
constexpr std::size_t kReadBackBatch = 64;
// Pages of one get while no server lives: a short prompt.
constexpr std::size_t kOutageGetPages = 8;

// Puts fresh pages until the *next* server stores one. Runs on a thread of its own: a put waits for
// the server, and the reads beside it must not.
class FirstPutProbe {
 public:
  FirstPutProbe(Client& client, PageSession& session, std::uint64_t old_incarnation,
                std::uint32_t writer)
      : thread_([this, &client, &session, old_incarnation, writer] {
          run(client, session, old_incarnation, writer);
          done_.store(true, std::memory_order_release);
        }) {}
  ~FirstPutProbe() {
    stop_.store(true, std::memory_order_relaxed);
    thread_.join();
  }
  bool done() const { return done_.load(std::memory_order_acquire); }
  // After done().
  MonoNs stored_at() const { return stored_at_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  void run(Client& client, PageSession& session, std::uint64_t old_incarnation,
           std::uint32_t writer) {
    for (std::uint64_t n = 0; !stop_.load(std::memory_order_relaxed); ++n) {
      const PageKey key{n, ~std::uint64_t{writer}};  // no hash of tokens looks like this
      const auto stored = session.store(std::span(&key, 1), std::nullopt);
      if (!stored && stored.error().code != ErrorCode::kDeadline) {
        error_ = stored.error();
        return;
      }
      if (stored && *stored == 1 && client.incarnation() != old_incarnation) {
        stored_at_ = monotonic_ns();
        return;
      }
    }
  }

  std::atomic<bool> stop_{false}, done_{false};
  MonoNs stored_at_ = 0;
  std::optional<Error> error_;
  std::thread thread_;  // last: starts when the others are there
};

class DemoWorker {
 public:
  DemoWorker(const DemoWorkerConfig& config, WorkerLink& link, AttachedWorker attached)
      : config_(config),
        link_(link),
        client_(std::move(attached.client)),
        ns_(attached.ns),
        workload_({config.seed, config.workers, config.users, 8}),
        served_(client_, ns_, config.index, kPutLimit),
        outage_(client_, ns_, config.index, kPutLimit),
        probe_(client_, ns_, config.index, kProbeLimit) {}

  Result<void> run() {
    if (auto done = send(Word::kReady); !done) return done;
    if (auto done = await_word(link_, Word::kGo); !done) return done;
    if (auto done = serve_until(config_.requests / 2); !done) return done;
    if (auto done = live_through_a_kill(); !done) return done;
    if (auto done = serve_until(config_.requests); !done) return done;
    return send(Word::kDone, whole_tally());
  }

 private:
  template <class... Body>
  Result<void> send(Word word, const Body&... body) {
    return link_.send(word, body..., monotonic_ns() + kWordLimit);
  }

  Result<void> serve_until(std::uint64_t end) {
    for (; made_ < end; ++made_) {
      const Request request = workload_.next();
      if (request.worker != config_.index) continue;
      if (auto served = serve(request); !served) return served;
      if (auto told = tell_progress(); !told) return told;
    }
    last_progress_ = 0;
    return tell_progress();
  }

  Result<void> serve(const Request& request) {
    ++served_.tally().requests;
    const std::span<const PageKey> keys(request.keys);
    const auto hits = served_.restore(keys.first(request.prompt_pages));
    if (!hits) return std::unexpected(hits.error());
    // The engine computes what is missing, and the answer; both become pages.
    std::optional<PageKey> parent;
    if (*hits > 0) parent = keys[*hits - 1];
    const auto stored = served_.store(keys.subspan(*hits), parent, &stored_);
    if (!stored) return std::unexpected(stored.error());
    return {};
  }

  Result<void> tell_progress() {
    const MonoNs now = monotonic_ns();
    if (now - last_progress_ < kProgressNs) return {};
    last_progress_ = now;
    const TallyBody& tally = served_.tally();
    return send(Word::kProgress, ProgressBody{tally.requests, tally.pages, tally.hit_pages});
  }

  Result<void> live_through_a_kill() {
    if (auto done = send(Word::kAtBarrier); !done) return done;
    if (auto done = await_word(link_, Word::kMark); !done) return done;
    auto resident = still_resident();
    if (!resident) return std::unexpected(resident.error());
    const std::uint64_t old_incarnation = client_.incarnation();
    if (auto done = send(Word::kMarked, MarkedBody{recorded_, resident->size()}); !done) {
      return done;
    }
    const auto outage = read_through_outage(*resident, old_incarnation);
    if (!outage) return std::unexpected(outage.error());
    if (auto done = send(Word::kServedAgain, *outage); !done) return done;
    if (auto done = await_word(link_, Word::kReadBackNow); !done) return done;
    const auto back = read_back(*resident);
    if (!back) return std::unexpected(back.error());
    if (auto done = send(Word::kReadBack, *back); !done) return done;
    return await_word(link_, Word::kResume);
  }

  // Of the pages this worker has stored so far, those whose copy of this worker is still there: one
  // that was evicted and stored again by the other worker is the other's. Stored twice counts once.
  Result<std::vector<PageKey>> still_resident() {
    std::unordered_set<PageKey> seen;
    std::erase_if(stored_, [&seen](const PageKey& key) { return !seen.insert(key).second; });
    recorded_ = stored_.size();
    std::vector<PageKey> resident;
    outage_.observe([this, &resident](const PageKey& key, std::uint32_t writer) {
      if (writer == config_.index) resident.push_back(key);
    });
    const auto read = read_back(stored_);
    outage_.observe({});
    if (!read) return std::unexpected(read.error());
    return resident;
  }

  // Reads marked pages as fast as it can until a new page was stored by the next server.
  Result<OutageBody> read_through_outage(const std::vector<PageKey>& resident,
                                         std::uint64_t old_incarnation) {
    OutageBody body;
    std::optional<FirstPutProbe> probe;
    Rng choice(config_.seed + config_.index);
    const MonoNs deadline = monotonic_ns() + kOutageLimit;
    for (MonoNs last_hit = monotonic_ns(); !probe || !probe->done();) {
      if (!probe) {
        const auto killed = link_.receive(0);
        if (!killed) return std::unexpected(killed.error());
        if (*killed) probe.emplace(client_, probe_, old_incarnation, config_.index);
      }
      const auto hits = read_some(resident, choice);
      if (!hits) return std::unexpected(hits.error());
      const MonoNs now = monotonic_ns();
      if (*hits > 0) {
        body.hits += *hits;
        body.longest_gap = std::max(body.longest_gap, now - last_hit);
        last_hit = now;
      }
      if (now > deadline) return fail(ErrorCode::kDeadline, "no server stored a page again");
    }
    if (probe->error()) return std::unexpected(*probe->error());
    body.first_stored_at = probe->stored_at();
    return body;
  }

  Result<std::uint32_t> read_some(const std::vector<PageKey>& resident, Rng& choice) {
    if (resident.empty()) {
      std::this_thread::yield();
      return 0u;
    }
    const std::size_t first = choice.uniform(resident.size());
    const std::size_t count = std::min(kOutageGetPages, resident.size() - first);
    return outage_.restore(std::span(resident).subspan(first, count));
  }

  Result<ReadBackBody> read_back(const std::vector<PageKey>& resident) {
    ReadBackBody body;
    const std::span<const PageKey> all(resident);
    for (std::size_t next = 0; next < all.size();) {
      const std::size_t count = std::min(kReadBackBatch, all.size() - next);
      const auto hits = outage_.restore(all.subspan(next, count));
      if (!hits) return std::unexpected(hits.error());
      body.read_back += *hits;
      next += *hits;
      if (*hits == count) continue;
      ++body.missing;  // a get ends at its first miss: go on behind it
      ++next;
    }
    return body;
  }

  // The workload's figures; of the rest only what says whether bytes were right.
  TallyBody whole_tally() {
    TallyBody tally = served_.tally();
    tally.verified_bytes += outage_.tally().verified_bytes;
    tally.checksum_mismatches += outage_.tally().checksum_mismatches;
    tally.wrong_pages += outage_.tally().wrong_pages;
    return tally;
  }

  DemoWorkerConfig config_;
  WorkerLink& link_;
  Client client_;
  Namespace ns_;
  Workload workload_;
  PageSession served_, outage_, probe_;
  std::uint64_t made_ = 0;
  MonoNs last_progress_ = 0;
  std::vector<PageKey> stored_;
  std::uint64_t recorded_ = 0;
};

}  // namespace

std::string to_text(const DemoWorkerConfig& config) {
  return nlohmann::ordered_json{
      {"socket", bytes_json(config.socket)}, {"index", config.index}, {"workers", config.workers},
      {"requests", config.requests},         {"seed", config.seed},   {"users", config.users},
      {"value_len", config.value_len}}
      .dump();
}

Result<DemoWorkerConfig> parse_demo_worker_config(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    return DemoWorkerConfig{.socket = bytes_of_json(json.at("socket")),
                            .index = json.at("index"),
                            .workers = json.at("workers"),
                            .requests = json.at("requests"),
                            .seed = json.at("seed"),
                            .users = json.at("users"),
                            .value_len = json.at("value_len")};
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorCode::kInvalidArgument, std::string("demo-worker: ") + error.what());
  }
}

int demo_worker_main(const std::string& config_text) {
  return run_worker([&config_text](WorkerLink& link) -> Result<void> {
    const auto config = parse_demo_worker_config(config_text);
    if (!config) return std::unexpected(config.error());
    auto attached = attach_worker(config->socket, "demo-worker-" + std::to_string(config->index),
                                  config->value_len, kPutLimit, monotonic_ns() + kAttachLimit);
    if (!attached) return std::unexpected(attached.error());
    return DemoWorker(*config, link, std::move(*attached)).run();
  });
}

}  // namespace orlop::cli
