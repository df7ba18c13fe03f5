// SPDX-License-Identifier: Apache-2.0
// What a client asks of the node, and its put plans.
#include <algorithm>
#include <utility>

#include "base/sometimes.h"
#include "segment/missed_ring.h"
#include "sim_client.h"
#include "world.h"

namespace orlop::simulation {

using protocol::Post;
using protocol::RequestCode;

namespace {
constexpr std::size_t kMostPuts = 5;
}  // namespace

void SimClient::remember(const protocol::Posted& posted, Operation operation,
                         std::uint64_t cookie) {
  if (posted.result != Post::kPosted) return;
  operation.request = posted.request;
  if (world_.fault(world_.options.request_abandoned))
    operation.deadline = world_.now + world_.rng.uniform(5 * kNsPerMs);
  my_->operations.emplace(cookie, std::move(operation));
}

void SimClient::open_namespace() {
  for (std::uint32_t ns = 0; ns < world_.options.namespaces(); ++ns) {
    const bool asked =
        std::any_of(my_->operations.begin(), my_->operations.end(), [ns](const auto& item) {
          return item.second.code == RequestCode::kOpenNamespace && item.second.ns == ns;
        });
    if (my_->rows[ns] || asked) continue;
    const std::uint64_t cookie = my_->next_cookie++;
    remember(session().open_namespace(world_.namespace_text(ns), cookie),
             {.code = RequestCode::kOpenNamespace, .ns = ns}, cookie);
    return;
  }
}

void SimClient::start_put() {
  const Options& o = world_.options;
  if (my_->puts.size() >= kMostPuts || my_->operations.size() >= o.most_operations) return;
  const Pages pages = choose_pages(true);
  const std::uint32_t chain_end = pages.first - pages.first % o.chain_length + o.chain_length;
  post_put(pages.ns, pages.first,
           std::min({pages.count, chain_end - pages.first, o.keys - pages.first}), false);
}

void SimClient::post_put(std::uint32_t ns, std::uint32_t first, std::uint32_t count,
                         bool last_put) {
  Operation operation{.code = RequestCode::kPutStart,
                      .ns = ns,
                      .begun = segment().slots.now(),
                      .last_put = last_put};
  operation.drain = segment().drains.now();
  for (std::uint32_t i = 0; i < count; ++i) operation.keys.push_back(key(ns, first + i));
  if (world_.roll(700)) {
    for (std::uint32_t left = count; left > 0; left -= operation.group_lens.back())
      operation.group_lens.push_back(static_cast<std::uint32_t>(world_.rng.between(1, left)));
  }
  protocol::PutRequest request{.row = *my_->rows[ns],
                               .value_len = world_.options.value_len[ns],
                               .wait_us = last_put ? 10'000 : world_.rng.uniform(10'000),
                               .keys = operation.keys,
                               .group_lens = operation.group_lens};
  if (first % world_.options.chain_length != 0 && world_.roll(800))
    request.parent = key(ns, first - 1);
  const std::uint64_t cookie = my_->next_cookie++;
  const protocol::Posted posted = session().put_start(request, cookie);
  SOMETIMES(posted.result == Post::kNoRoom, "sim: no room for a request");
  if (posted.result != Post::kPosted)
    world_.note(name() + " could not post: " + std::to_string(static_cast<int>(posted.result)));
  remember(posted, std::move(operation), cookie);
}

void SimClient::begin_last_put(std::uint32_t ns) {
  last_put_stored_ = false;
  // Through the front door of the process: its code must run under the hooks.
  run_as(
      *family().process, world_,
      [&] { post_put(ns, world_.options.keys + ++last_keys_ * 1000, 1, true); },
      [this] { my_.reset(); });
}

void SimClient::remove_some() {
  const auto ns = static_cast<std::uint32_t>(world_.rng.uniform(world_.options.namespaces()));
  const auto first = static_cast<std::uint32_t>(world_.rng.uniform(world_.options.keys));
  Operation operation{.code = RequestCode::kRemove, .ns = ns};
  for (std::uint64_t i = 0; i < world_.rng.between(1, 3); ++i)
    operation.keys.push_back(key(ns, first + static_cast<std::uint32_t>(i)));
  const std::uint64_t cookie = my_->next_cookie++;
  const protocol::Posted posted = session().remove(*my_->rows[ns], operation.keys, cookie);
  if (posted.result != Post::kPosted) return;
  operation.removal =
      segment().removals.posted({*my_->rows[ns]}, operation.keys, segment().slots.now());
  world_.note(name() + " removes from namespace " + std::to_string(ns));
  remember(posted, std::move(operation), cookie);
}

void SimClient::begin_last_remove(std::uint32_t ns, std::uint32_t nth) {
  run_as(
      *family().process, world_,
      [&] {
        Operation operation{.code = RequestCode::kRemove, .ns = ns};
        operation.keys.push_back(key(ns, world_.options.keys + nth * 1000));
        const std::uint64_t cookie = my_->next_cookie++;
        const protocol::Posted posted = session().remove(*my_->rows[ns], operation.keys, cookie);
        if (posted.result != Post::kPosted) return;
        operation.removal =
            segment().removals.posted({*my_->rows[ns]}, operation.keys, segment().slots.now());
        remember(posted, std::move(operation), cookie);
      },
      [this] { my_.reset(); });
}

void SimClient::tell_missed(std::uint32_t ns, std::uint32_t nth) {
  segment::write_missed(my_->channel, {key(ns, world_.options.keys + nth * 1000), row_of(ns)});
}

void SimClient::spoil_missed() {
  for (std::uint64_t left = world_.rng.uniform(2 * segment::kMissedCells); left > 0; --left) {
    segment::MissedCell& cell = my_->channel.missed()[world_.rng.uniform(segment::kMissedCells)];
    cell.key_lo.store(world_.rng.next());
    cell.key_hi.store(world_.rng.next());
    cell.row.store(world_.roll(500) ? world_.rng.uniform(2 * kMostNamespaces) : world_.rng.next());
  }
  my_->channel.header().missed_tail.store(static_cast<std::uint32_t>(world_.rng.next()));
}

void SimClient::flush_some() {
  const auto ns = static_cast<std::uint32_t>(world_.rng.uniform(world_.options.namespaces()));
  const bool whole_family = world_.rng.chance(0.3);
  Operation operation{.code = RequestCode::kFlush, .ns = ns};
  const std::uint64_t cookie = my_->next_cookie++;
  const protocol::Posted posted = session().flush(*my_->rows[ns], whole_family, cookie);
  if (posted.result != Post::kPosted) return;
  std::vector<NamespaceRow> rows{*my_->rows[ns]};
  for (std::uint32_t other = 0; whole_family && other < world_.options.namespaces(); ++other)
    if (other != ns && world_.options.same_family(ns, other)) rows.push_back(*my_->rows[other]);
  operation.removal = segment().removals.posted(rows, {}, segment().slots.now());
  world_.note(name() + " flushes namespace " + std::to_string(ns));
  remember(posted, std::move(operation), cookie);
}

void SimClient::drain(protocol::DrainMode mode) {
  const std::uint64_t cookie = my_->next_cookie++;
  const protocol::Posted posted = session().drain(mode, cookie);
  if (posted.result != Post::kPosted) return;
  world_.note(name() + (mode == protocol::DrainMode::kBegin ? " begins" : " ends") + " a drain");
  // Nobody stops waiting for it: the oracle wants to know how it ended.
  Operation operation{.code = RequestCode::kDrain, .request = posted.request};
  operation.drain = segment().drains.posted();
  my_->operations.emplace(cookie, std::move(operation));
}

void SimClient::begin_drain_end() {
  run_as(
      *family().process, world_, [this] { drain(protocol::DrainMode::kEnd); },
      [this] { my_.reset(); });
}

// ---- put plans ----------------------------------------------------------------------------------

void SimClient::advance_puts() {
  std::vector<PutId> open;
  for (const auto& [id, plan] : my_->puts) open.push_back(id);
  for (const PutId id : open) {
    PutPlan& plan = my_->puts.at(id);
    if (plan.aborted || plan.stuck) continue;
    if (!plan.last_put && world_.fault(world_.options.abort)) {
      abort(id, plan);
    } else if (plan.copies == 0 && world_.roll(400)) {
      commit(id, plan);
    }
  }
}

void SimClient::commit(PutId id, PutPlan& plan) {
  if (!session().can_commit(id))
    return broken(Oracle::kAnswers, "a held put without copies cannot be committed");
  Operation operation{.code = RequestCode::kPutCommit,
                      .ns = plan.ns,
                      .keys = plan.keys,
                      .put = id,
                      .entry_groups = plan.entry_groups,
                      .order = my_->next_commit++,
                      .begun = plan.begun,
                      .index = plan.index,
                      .last_put = plan.last_put};
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    const ValueIdentity identity{plan.keys[i], plan.ns};
    const std::span<const std::byte> value =
        segment().memory.value(SlotId{plan.entries[i].slot}, world_.options.value_len[plan.ns]);
    if (!value_is_right(identity, value, 0, value.size()))
      broken(Oracle::kS2, "somebody else wrote into a Prepared slot");
    plan.entries[i].checksum = value_checksum(identity, value);
  }
  operation.entries = plan.entries;
  {
    const Unobserved quiet;
    operation.flushed = my_->area.current_index(*my_->rows[plan.ns]) != plan.index;
  }
  const std::uint64_t cookie = my_->next_cookie++;
  session().commit(id, plan.entries, cookie);
  my_->operations.emplace(cookie, std::move(operation));
  my_->puts.erase(id);
  writing_is_over(id, true);
}

void SimClient::abort(PutId id, PutPlan& plan) {
  if (!session().abort(id)) return broken(Oracle::kAnswers, "an open put cannot be aborted");
  SOMETIMES(plan.copies > 0, "sim: abort with copies queued");
  plan.aborted = true;
  if (plan.copies > 0) return;
  my_->puts.erase(id);
  writing_is_over(id, false);
}

void SimClient::writing_is_over(PutId id, bool committed) {
  std::erase(family().writing, id);
  if (committed) segment().slots.commit_posted(id);
  segment().slots.writer_ends(id);
}

void SimClient::write_finished(const Copy& copy) {
  const auto found = my_->puts.find(copy.put);
  if (found == my_->puts.end()) return broken(Oracle::kS2, "a copy of a put that is over finished");
  PutPlan& plan = found->second;
  session().copy_done(copy.put, !copy.failed);
  if (copy.failed) plan.stuck = true;
  --plan.copies;
  if (!plan.aborted || plan.copies > 0 || plan.stuck) return;
  my_->puts.erase(found);
  writing_is_over(copy.put, false);
}

}  // namespace orlop::simulation
