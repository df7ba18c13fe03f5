// SPDX-License-Identifier: Apache-2.0
// Session: held puts, and the life of the server.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/planted.h"
#include "protocol/session/session.h"

namespace orlop::protocol {

bool Session::can_commit(PutId put) const {
  const auto held = puts_.find(put);
  return held != puts_.end() && !held->second.committed && held->second.life.open() &&
         held->second.life.copies() == 0 && !held->second.life.stuck();
}

void Session::commit(PutId put, std::vector<CommitEntry> entries, std::uint64_t cookie) {
  CHECK(can_commit(put), "commit of a put that is not held, or has copies");
  CHECK(!entries.empty());
  HeldPut& held = puts_.at(put);
  held.committed = true;
  held.commit_order = next_commit_++;
  held.cookie = cookie;
  held.entries = std::move(entries);
  // Between lost() and resumed() it waits in puts_: resumed() queues every kept commit.
  if (state_ == State::kAttached)
    private_queue_.push_back({.code = RequestCode::kPutCommit, .put = put});
}

void Session::set_commit_cookie(PutId put, std::uint64_t cookie) {
  const auto held = puts_.find(put);
  if (held != puts_.end() && held->second.committed) held->second.cookie = cookie;
}

bool Session::abort(PutId put) {
  const auto held = puts_.find(put);
  if (held == puts_.end() || held->second.committed || !held->second.life.open()) return false;
  if (held->second.life.end()) finish_put(put);
  return true;
}

bool Session::register_copy(PutId put) {
  const auto held = puts_.find(put);
  return held != puts_.end() && !held->second.committed && held->second.life.register_copy();
}

bool Session::copy_done(PutId put, bool success) {
  const auto held = puts_.find(put);
  if (held == puts_.end()) return false;
  const PlanLife::Done done = held->second.life.copy_done(success);
  if (done.ended) finish_put(put);
  return done.accepted;
}

void Session::finish_put(PutId put) {
  puts_.erase(put);
  // Lost: the snapshot will not name it, which aborts it. Reset: the snapshot taken names it.
  if (state_ == State::kAttached || state_ == State::kReset)
    private_queue_.push_back({.code = RequestCode::kPutAbort, .put = put});
}

std::size_t Session::kept_commits() const {
  return static_cast<std::size_t>(std::count_if(
      puts_.begin(), puts_.end(), [](const auto& item) { return item.second.committed; }));
}

void Session::lost() {
  if (state_ == State::kAttached) state_ = State::kLost;
}

ResumeSnapshot Session::reset() {
  CHECK(state_ == State::kLost || state_ == State::kReset, "reset only after lost()");
  ResumeSnapshot snapshot;
  for (const auto& [put, held] : puts_)
    if (!held.committed || !PLANTED(kSnapshotForgetsCommits)) snapshot.held.push_back(put);
  if (PLANTED(kPutIdReusedAfterRestart)) next_put_ = 1;
  drop_outstanding(&snapshot.lost);
  // Aborts are said by the snapshot, commits and the detach are queued again by resumed().
  std::erase_if(private_queue_,
                [](const Private& item) { return item.code != RequestCode::kReportMismatch; });
  segment::ChannelHeader& header = channel_.header();
  header.ring_generation.store(++ring_generation_, std::memory_order_relaxed);
  requests_.reset();
  responses_.reset();
  cells_denied_ = false;
  header.request_head.store(0, std::memory_order_relaxed);
  header.response_tail.store(0, std::memory_order_relaxed);
  snapshot.ring_generation = ring_generation_;
  state_ = State::kReset;
  return snapshot;
}

// Nothing that is in flight will be answered. Its space stays taken: the old server may have been
// writing there when the snapshot was made, and what a new one knows of it ends with kResumed.
void Session::drop_outstanding(std::vector<Lost>* lost) {
  for (Outstanding& entry : outstanding_) {
    if (entry.request.value == 0) continue;
    if (entry.cookie != 0 && entry.code != RequestCode::kDetach)
      lost->push_back({entry.code, entry.cookie, entry.request});
    if (PLANTED(kPostedCommitForgotten) && entry.code == RequestCode::kPutCommit)
      puts_.at(entry.put).forgotten = true;
    if (!entry.region_free) retired_.push_back(entry.region);
    forget(entry);
  }
}

void Session::resumed() {
  CHECK(state_ == State::kReset, "resumed only after reset()");
  state_ = State::kAttached;
  for (const Region& region : retired_) arena_.free(region.offset, region.bytes);
  retired_.clear();

  std::vector<std::pair<std::uint64_t, PutId>> commits;
  for (const auto& [put, held] : puts_)
    if (held.committed && !held.forgotten) commits.emplace_back(held.commit_order, put);
  std::sort(commits.begin(), commits.end());
  SOMETIMES(!commits.empty(), "kept_commits_posted_again");
  // In front of aborts and reports, in commit order: a client's stores are reported in that order.
  for (auto commit = commits.rbegin(); commit != commits.rend(); ++commit)
    private_queue_.push_front({.code = RequestCode::kPutCommit, .put = commit->second});
  if (detaching_) private_queue_.push_back({.code = RequestCode::kDetach});
}

std::vector<Lost> Session::give_up() {
  std::vector<Lost> lost;
  drop_outstanding(&lost);
  for (auto& [put, held] : puts_)
    if (held.committed && held.cookie != 0)
      lost.push_back({RequestCode::kPutCommit, held.cookie, RequestId{}});
  if (detaching_ && detach_cookie_ != 0)
    lost.push_back({RequestCode::kDetach, detach_cookie_, RequestId{}});
  puts_.clear();
  private_queue_.clear();
  queued_reports_ = 0;
  state_ = State::kOver;
  return lost;
}

}  // namespace orlop::protocol
