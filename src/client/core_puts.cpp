// SPDX-License-Identifier: Apache-2.0
// ClientCore: puts and their futures.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "client/arguments.h"
#include "client/client_core.h"
#include "client/interruption.h"
#include "client/limits.h"
#include "copy/checksum.h"
#include "platform/clock.h"
#include "platform/pause_point.h"

namespace orlop::detail {

using client::Attachment;
using protocol::Answer;
using protocol::Posted;
using protocol::PutRequest;

namespace {

Result<void> check_put(std::span<const Key> keys, const PutOptions& options) {
  if (auto checked = client::check_keys(keys); !checked) return checked;
  if (auto checked = client::check_group_lens(options.atomic_group_lens, keys.size()); !checked)
    return checked;
  if (auto checked = client::check_replicate_mask(options.replicate_mask, options.atomic_group_lens,
                                                  keys.size());
      !checked)
    return checked;
  if (options.parent &&
      (options.parent->empty() || options.parent->size() > client::kMaxKeyBytes)) {
    return fail(ErrorCode::kInvalidArgument,
                "parent: has " + std::to_string(options.parent->size()) +
                    " bytes, allowed are 1 to " + std::to_string(client::kMaxKeyBytes) +
                    "; leave it out for a root");
  }
  if (options.deadline && options.deadline->count() < 0) {
    return fail(ErrorCode::kInvalidArgument, "deadline: is negative; give 0 or more milliseconds");
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<PutPlanState>> ClientCore::put_start(NamespaceState& ns,
                                                            std::span<const Key> keys,
                                                            const PutOptions& options) {
  if (auto checked = check_put(keys, options); !checked) return std::unexpected(checked.error());
  auto plan = std::make_shared<PutPlanState>();
  plan->value_len = ns.descriptor.value_len;
  plan->digest = ns.digest.lo;
  plan->keys.reserve(keys.size());
  for (const Key& key : keys) plan->keys.push_back(ns.hasher.hash(key.data(), key.size()));
  std::optional<KeyId> parent;
  if (options.parent) parent = ns.hasher.hash(options.parent->data(), options.parent->size());
  const MonoNs begun = monotonic_ns();
  const MonoNs deadline = deadline_in(options.deadline);

  Lock lock(mutex_);
  if (auto unique = client::check_unique(plan->keys, unique_scratch_); !unique)
    return std::unexpected(unique.error());
  if (closed_.load()) return std::unexpected(error_of(CallEnd::kClosed, {}));
  ++counters_.puts;
  counters_.keys_put += keys.size();
  plan->core = shared_from_this();

  const auto resolved = resolve(lock, ns, deadline);
  if (!resolved && resolved.error().code != ErrorCode::kNoNode)
    return std::unexpected(resolved.error());
  CallEnd end = CallEnd::kNoNode;
  Answer answer;
  if (resolved) {
    auto post = [&](Attachment& attachment, std::uint64_t cookie) {
      const auto row = ns.row(number_.load());
      if (!row) return Posted{};  // another segment by now; it opens its namespaces first
      const MonoNs left = time_left(deadline, monotonic_ns());
      return attachment.guarded->session.put_start(
          PutRequest{*row, plan->value_len, std::min(left, client::kSpaceWait) / kNsPerUs,
                     plan->keys, options.atomic_group_lens, parent},
          cookie);
    };
    end = call(lock, deadline, std::ref(post), &answer, &plan->attachment);
  }
  if (end == CallEnd::kNoNode) {
    plan->outcomes.assign(keys.size(), Outcome::kNoNode);
    plan->explanation = error_of(end, answer).message;
  } else if (end != CallEnd::kAnswered || answer.status != protocol::kStatusOk) {
    return std::unexpected(error_of(end, answer));
  } else if (closed_.load()) {
    // The answer came while close() waited; it has ended the open puts before.
    if (plan->attachment->guarded->session.abort(answer.put)) idle_ring();
    return std::unexpected(error_of(CallEnd::kClosed, {}));
  } else if (auto taken = take_grants(*plan, answer); !taken) {
    return std::unexpected(taken.error());
  } else {
    put_latency_.record(monotonic_ns() - begun);
  }
  count_outcomes(plan->outcomes);
  // Ours whatever becomes of the plan meanwhile: the mapping stays, and no byte changes.
  const std::shared_ptr<Attachment> attachment = plan->attachment;
  lock.unlock();
  if (attachment != nullptr) prepare_pages(*plan, *attachment);
  PAUSE_POINT(kClientPutGranted);
  return plan;
}

void ClientCore::prepare_pages(const PutPlanState& plan, Attachment& attachment) {
  for (const protocol::SlotGrant& grant : plan.grants) {
    if (grant.slot == 0) continue;
    attachment.value_pages->will_write(attachment.value(SlotId{grant.slot}, plan.value_len));
  }
}

// mutex_ held. What the node granted becomes the plan's.
Result<void> ClientCore::take_grants(PutPlanState& plan, Answer& answer) {
  plan.put = answer.put;
  plan.grants = std::move(answer.grants);
  plan.outcomes = std::move(answer.outcomes);
  plan.explanation = std::move(answer.text);
  const segment::Geometry& geometry = plan.attachment->area.geometry();
  for (std::size_t i = 0; i < plan.grants.size(); ++i) {
    const bool granted = plan.grants[i].slot != 0;
    if (granted != (plan.outcomes[i] == Outcome::kPrepared) ||
        (granted && !geometry.in_bounds(SlotId{plan.grants[i].slot}, plan.value_len))) {
      if (plan.attachment->guarded->session.abort(plan.put)) idle_ring();
      return fail(ErrorCode::kCorrupt, "keys[" + std::to_string(i) + "]: the node granted slot " +
                                           std::to_string(plan.grants[i].slot) +
                                           ", which does not lie in its memory");
    }
    plan.prepared += granted ? 1 : 0;
  }
  if (plan.prepared == 0) {
    plan.attachment = nullptr;
    return {};
  }
  plan.checksums.resize(plan.keys.size());
  plan.summed.resize(plan.keys.size());
  link_put(plan);
  return {};
}

void ClientCore::link_put(PutPlanState& plan) {
  plan.linked = true;
  plan.next = open_puts_;
  if (open_puts_ != nullptr) open_puts_->previous = &plan;
  open_puts_ = &plan;
  ++open_put_count_;
}

void ClientCore::end_put(PutPlanState& plan, PutPlanState::Over over) {
  if (plan.over.load() == PutPlanState::Over::kNo) plan.over.store(over);
  if (plan.blob_bytes != 0) {
    plan.attachment->guarded->blobs.free(plan.blob_offset, plan.blob_bytes);
    plan.blob_bytes = 0;
  }
  if (!plan.linked) return;
  plan.linked = false;
  (plan.previous != nullptr ? plan.previous->next : open_puts_) = plan.next;
  if (plan.next != nullptr) plan.next->previous = plan.previous;
  plan.previous = plan.next = nullptr;
  --open_put_count_;
}

void ClientCore::count_outcomes(std::span<const Outcome> outcomes) {
  for (const Outcome outcome : outcomes) ++counters_.outcomes[static_cast<int>(outcome)];
}

// Of what was not written by copy_in. False: close() came first.
bool ClientCore::sum_missing(PutPlanState& plan) const {
  for (std::size_t i = 0; i < plan.grants.size(); ++i) {
    const protocol::SlotGrant& grant = plan.grants[i];
    if (grant.slot == 0 || plan.summed[i]) continue;
    const client::RunningCopy running(plan.gate, closed_);
    if (!running) return false;
    plan.checksums[i] = checksum(plan.attachment->value(SlotId{grant.slot}, plan.value_len),
                                 {.key = plan.keys[i], .namespace_digest = plan.digest});
  }
  return true;
}

Result<std::shared_ptr<FutureState>> ClientCore::put_commit(
    const std::shared_ptr<PutPlanState>& plan) {
  auto future = std::make_shared<FutureState>();
  future->core = shared_from_this();
  future->outcomes = plan->outcomes;
  future->value_len = plan->value_len;
  if (!sum_missing(*plan)) return fail(ErrorCode::kClosed, "plan: its client was closed");
  PAUSE_POINT(kClientCommitting);
  std::vector<protocol::CommitEntry> entries;
  entries.reserve(plan->prepared);
  for (std::size_t i = 0; i < plan->grants.size(); ++i) {
    const protocol::SlotGrant& grant = plan->grants[i];
    if (grant.slot != 0) entries.push_back({grant.slot, grant.generation, plan->checksums[i]});
  }

  Lock lock(mutex_);
  if (plan->over.load() != PutPlanState::Over::kNo)
    return fail(ErrorCode::kClosed, "plan: its client was closed");
  if (plan->prepared == 0) {
    plan->over.store(PutPlanState::Over::kEnded);
    future->done.store(true, std::memory_order_release);
    return future;
  }
  protocol::Session& session = plan->attachment->guarded->session;
  if (session.holds(plan->put) && !session.can_commit(plan->put)) {
    return fail(ErrorCode::kWrongState,
                "plan: has copies that are not done, or one that failed; commit after copy_done, "
                "or abort");
  }
  end_put(*plan, PutPlanState::Over::kEnded);
  if (!session.holds(plan->put)) {  // its segment is gone
    resolve_future(*future, {}, Outcome::kNoNode);
    return future;
  }
  const std::uint64_t cookie = next_cookie_++;
  commits_.emplace(cookie, future);
  session.commit(plan->put, std::move(entries), cookie);
  session.pump();
  ring_if_asleep(*plan->attachment);
  PAUSE_POINT(kClientCommitPosted);
  idle_ring();
  return future;
}

void ClientCore::put_abort(const std::shared_ptr<PutPlanState>& plan) {
  Lock lock(mutex_);
  if (plan->over.load() != PutPlanState::Over::kNo) return;
  if (plan->attachment == nullptr) {
    plan->over.store(PutPlanState::Over::kEnded);
    return;
  }
  protocol::Session& session = plan->attachment->guarded->session;
  session.abort(plan->put);
  if (session.holds(plan->put)) {
    // Its copies are not done: the blob and the place in the list stay until copy_done().
    plan->over.store(PutPlanState::Over::kEnded);
    return;
  }
  end_put(*plan, PutPlanState::Over::kEnded);
  session.pump();
  ring_if_asleep(*plan->attachment);
  idle_ring();
}

// mutex_ held. committed: one per prepared key, or empty: all of them are `otherwise`.
void ClientCore::resolve_future(FutureState& future, std::span<const Outcome> committed,
                                Outcome otherwise) {
  std::size_t next = 0;
  for (Outcome& outcome : future.outcomes) {
    if (outcome != Outcome::kPrepared) continue;
    outcome = next < committed.size() ? committed[next] : otherwise;
    ++next;
    ++counters_.outcomes[static_cast<int>(outcome)];
    if (outcome != Outcome::kStored) continue;
    ++counters_.keys_stored;
    counters_.bytes_written += future.value_len;
  }
  future.done.store(true, std::memory_order_release);
}

bool ClientCore::future_ready(FutureState& future) {
  if (future.done.load(std::memory_order_acquire)) return true;
  Lock lock(mutex_);
  if (attachment_ != nullptr) consume(*attachment_);
  return future.done.load(std::memory_order_acquire);
}

bool ClientCore::wait_future(FutureState& future, MonoNs deadline) {
  if (future.done.load(std::memory_order_acquire)) return true;
  Lock lock(mutex_);
  while (!future.done.load(std::memory_order_acquire)) {
    if (monotonic_ns() >= deadline) return false;
    wait_progress(lock, deadline);
    if (future.done.load(std::memory_order_acquire)) break;
    if (client::WaitInterruption::asked_to_stop(lock)) return future.done.load();
  }
  return true;
}

Result<std::uint64_t> ClientCore::register_put_copy(const std::shared_ptr<PutPlanState>& plan) {
  Lock lock(mutex_);
  if (copies_.size() >= client::kMaxRegisteredCopies)
    return fail(ErrorCode::kLimit, "copy: too many copies are registered; report the done ones");
  if (plan->attachment == nullptr)
    return fail(ErrorCode::kWrongState, "plan: no key of it has memory; there is nothing to copy");
  const std::uint64_t copy = next_copy_++;
  copies_.emplace(copy, CopyOwner{.read = nullptr, .put = plan});  // may find no memory
  protocol::Session& session = plan->attachment->guarded->session;
  // A put of a segment that is gone has nobody to be protected from.
  if (session.holds(plan->put) && !session.register_copy(plan->put)) {
    copies_.erase(copy);
    return fail(ErrorCode::kWrongState, "plan: is over; register copies before commit or abort");
  }
  return copy;
}

Result<std::span<const std::uint64_t>> ClientCore::put_blob(PutPlanState& plan) {
  if (plan.prepared == 0) return std::span<const std::uint64_t>{};
  const std::uint64_t bytes = segment::plan_blob_bytes(plan.prepared);
  Lock lock(mutex_);
  std::byte* area = plan.attachment->channel.plans().data();
  if (plan.blob_bytes == 0) {
    const auto offset = plan.attachment->guarded->blobs.allocate(bytes);
    if (!offset) {
      return fail(ErrorCode::kLimit, "plan blob: " + std::to_string(bytes) +
                                         " bytes do not fit beside the other plans' blobs; end "
                                         "some plans");
    }
    plan.blob_offset = *offset;
    plan.blob_bytes = bytes;
    auto* word = reinterpret_cast<std::uint64_t*>(area + *offset);
    *word++ = segment::kPlanMagic;
    *word++ = plan.prepared;
    for (const protocol::SlotGrant& grant : plan.grants) {
      if (grant.slot == 0) continue;
      *word++ = reinterpret_cast<std::uint64_t>(
          plan.attachment->value(SlotId{grant.slot}, plan.value_len).data());
    }
  }
  return std::span(reinterpret_cast<const std::uint64_t*>(area + plan.blob_offset), bytes / 8);
}

}  // namespace orlop::detail
