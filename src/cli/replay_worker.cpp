// SPDX-License-Identifier: Apache-2.0
#include "cli/replay_worker.h"

#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "cli/json_parts.h"
#include "cli/page_session.h"
#include "cli/trace.h"
#include "cli/worker_process.h"
#include "platform/clock.h"

namespace orlop::cli {
namespace {

constexpr MonoNs kAttachLimit = 20 * kNsPerSecond;
constexpr MonoNs kProgressNs = 100 * kNsPerMs;
// Far longer than any server takes: a page that is not stored would change the hit rate.
constexpr Milliseconds kPutLimit{30'000};

Result<void> tell_progress(WorkerLink& link, const TallyBody& tally) {
  return link.send(Word::kProgress, ProgressBody{tally.requests, tally.pages, tally.hit_pages},
                   monotonic_ns() + kWordLimit);
}

Result<void> serve(PageSession& session, const TraceRequest& request) {
  ++session.tally().requests;
  std::vector<PageKey> keys;
  keys.reserve(request.pages.size());
  for (const std::uint64_t page : request.pages) keys.push_back({page, 0});
  const auto hits = session.restore(keys);
  if (!hits) return std::unexpected(hits.error());
  if (*hits == keys.size()) return {};
  std::optional<PageKey> parent;
  if (*hits > 0) parent = keys[*hits - 1];
  const auto stored = session.store(std::span(keys).subspan(*hits), parent);
  if (!stored) return std::unexpected(stored.error());
  return {};
}

Result<void> work(const ReplayWorkerConfig& config, WorkerLink& link) {
  const auto trace = read_trace(config.path, config.limit);
  if (!trace) return std::unexpected(trace.error());
  auto attached = attach_worker(config.socket, "replay-worker-" + std::to_string(config.index),
                                config.value_len, kPutLimit, monotonic_ns() + kAttachLimit);
  if (!attached) return std::unexpected(attached.error());
  PageSession session(attached->client, attached->ns, config.index, kPutLimit);
  if (auto told = link.send(Word::kReady, monotonic_ns() + kWordLimit); !told) return told;
  if (auto go = await_word(link, Word::kGo); !go) return go;
  MonoNs last_progress = monotonic_ns();
  for (std::size_t i = config.index; i < trace->requests.size(); i += config.workers) {
    if (auto served = serve(session, trace->requests[i]); !served) return served;
    if (monotonic_ns() - last_progress < kProgressNs) continue;
    last_progress = monotonic_ns();
    if (auto told = tell_progress(link, session.tally()); !told) return told;
  }
  if (auto told = tell_progress(link, session.tally()); !told) return told;
  return link.send(Word::kDone, session.tally(), monotonic_ns() + kWordLimit);
}

}  // namespace

std::string to_text(const ReplayWorkerConfig& config) {
  nlohmann::ordered_json json{{"socket", bytes_json(config.socket)},
                              {"path", bytes_json(config.path)},
                              {"index", config.index},
                              {"workers", config.workers},
                              {"value_len", config.value_len}};
  if (config.limit) json["limit"] = *config.limit;
  return json.dump();
}

Result<ReplayWorkerConfig> parse_replay_worker_config(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    ReplayWorkerConfig config{.socket = bytes_of_json(json.at("socket")),
                              .path = bytes_of_json(json.at("path")),
                              .index = json.at("index"),
                              .workers = json.at("workers"),
                              .value_len = json.at("value_len"),
                              .limit = std::nullopt};
    if (json.contains("limit")) config.limit = json.at("limit").get<std::uint64_t>();
    return config;
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorCode::kInvalidArgument, std::string("replay-worker: ") + error.what());
  }
}

int replay_worker_main(const std::string& config_text) {
  return run_worker([&config_text](WorkerLink& link) -> Result<void> {
    const auto config = parse_replay_worker_config(config_text);
    if (!config) return std::unexpected(config.error());
    return work(*config, link);
  });
}

}  // namespace orlop::cli
