// SPDX-License-Identifier: Apache-2.0
// ClientCore: what plans of both kinds need besides their bytes: registered copies, blobs, mismatch
// reports.
#include <utility>

#include "client/client_core.h"
#include "client/limits.h"

namespace orlop::detail {

using client::ThreadState;

Result<std::uint64_t> ClientCore::register_read_copy(ReadState& plan) {
  const std::lock_guard home(plan.home->mutex);
  if (plan.phase.load(std::memory_order_relaxed) != ReadState::Phase::kPlan)
    return fail(ErrorCode::kClosed, "plan: its client was closed");
  const Lock lock(mutex_);
  if (copies_.size() >= client::kMaxRegisteredCopies)
    return fail(ErrorCode::kLimit, "copy: too many copies are registered; report the done ones");
  const std::uint64_t copy = next_copy_++;
  copies_.emplace(copy, CopyOwner{.read = &plan, .put = nullptr});  // may find no memory
  plan.life.register_copy();
  return copy;
}

// plan: the copy must belong to it; null: to any.
Result<void> ClientCore::copy_done(std::uint64_t copy, bool success, const void* plan) {
  CopyOwner owner;
  {
    const Lock lock(mutex_);
    const auto found = copies_.find(copy);
    if (found == copies_.end() ||
        (plan != nullptr && plan != found->second.read && plan != found->second.put.get())) {
      return fail(ErrorCode::kInvalidArgument,
                  "copy: " + std::to_string(copy) +
                      " is not registered with this plan, or was reported already");
    }
    owner = std::move(found->second);
    copies_.erase(found);
    if (owner.put != nullptr) {
      put_copy_done(owner.put, success);
      return {};
    }
    if (!success) ++stuck_reads_;
  }
  // The state cannot go meanwhile: its life still counts this copy.
  std::shared_ptr<ClientCore> last;
  const std::lock_guard home(owner.read->home->mutex);
  if (!owner.read->life.copy_done(success).ended) return {};
  unpin(*owner.read, true);
  if (owner.read->phase.load(std::memory_order_relaxed) != ReadState::Phase::kDropped) return {};
  --owner.read->home->plans;
  last = recycle(owner.read);
  return {};
}

// mutex_ held.
void ClientCore::put_copy_done(const std::shared_ptr<PutPlanState>& plan, bool success) {
  protocol::Session& session = plan->attachment->guarded->session;
  session.copy_done(plan->put, success);
  if (!success) {
    stuck_puts_.push_back(plan);
    return;
  }
  if (plan->over.load() == PutPlanState::Over::kNo || session.holds(plan->put)) return;
  end_put(*plan, PutPlanState::Over::kEnded);
  session.pump();
  ring_if_asleep(*plan->attachment);
  idle_ring();
}

Result<std::span<const std::uint64_t>> ClientCore::read_blob(ReadState& plan) {
  const std::uint64_t count = std::uint64_t{plan.pages} * plan.rank_count;
  if (count == 0) return std::span<const std::uint64_t>{};
  const std::lock_guard home(plan.home->mutex);
  if (!plan.pinned) return fail(ErrorCode::kClosed, "plan: its client was closed");
  const client::Attachment& on = *plan.attachment;
  std::byte* area = on.channel.plans().data();
  const std::uint64_t bytes = segment::plan_blob_bytes(count);
  if (plan.blob_bytes == 0) {
    std::optional<std::uint64_t> offset;
    {
      const Lock lock(mutex_);
      offset = on.guarded->blobs.allocate(bytes);
    }
    if (!offset) {
      return fail(ErrorCode::kLimit, "plan blob: " + std::to_string(bytes) +
                                         " bytes do not fit beside the other plans' blobs; end "
                                         "some plans");
    }
    plan.blob_offset = *offset;
    plan.blob_bytes = bytes;
    auto* word = reinterpret_cast<std::uint64_t*>(area + *offset);
    *word++ = segment::kPlanMagic;
    *word++ = count;
    for (std::uint32_t page = 0; page < plan.pages; ++page) {
      for (std::uint32_t r = 0; r < plan.rank_count; ++r) {
        const segment::PinnedSlot& pin = plan.ranks[r].pins[page];
        *word++ = reinterpret_cast<std::uint64_t>(on.value(pin.slot, pin.value_len).data());
      }
    }
  }
  return std::span(reinterpret_cast<const std::uint64_t*>(area + plan.blob_offset), bytes / 8);
}

void ClientCore::free_read_blob(ReadState& state) {
  const Lock lock(mutex_);
  state.attachment->guarded->blobs.free(state.blob_offset, state.blob_bytes);
  state.blob_bytes = 0;
}

// Told to the node once a page: what lies beyond an earlier mismatch is a miss already.
void ClientCore::found_mismatch(ReadState& plan, std::size_t page, std::size_t rank) {
  const auto found = static_cast<std::uint32_t>(page);
  std::uint32_t valid = plan.valid.load(std::memory_order_relaxed);
  do {
    if (found >= valid) return;
  } while (!plan.valid.compare_exchange_weak(valid, found, std::memory_order_relaxed));
  report_mismatch(plan, page, rank);
}

void ClientCore::report_mismatch(ReadState& plan, std::size_t page, std::size_t rank) {
  {
    const std::lock_guard home(plan.home->mutex);
    ++plan.home->counters.mismatches;
    ++plan.home->counters.misses[static_cast<std::size_t>(MissReason::kMismatch)];
  }
  const segment::PinnedSlot& pin = plan.ranks[rank].pins[page];
  const Lock lock(mutex_);
  protocol::Session& session = plan.attachment->guarded->session;
  session.report({.key = plan.keys[page],
                  .ns = plan.ranks[rank].ns.value,
                  .slot = pin.slot.value,
                  .generation = pin.generation.value});
  session.pump();
  ring_if_asleep(*plan.attachment);
  idle_ring();
}

// The thread is ending; nobody else uses its ledger but through the mutex.
void ClientCore::thread_exits(ThreadState& thread) {
  const std::lock_guard home(thread.mutex);
  thread.spare.clear();
  if (thread.ledger) {
    std::vector<std::uint32_t> empty, pinned;
    thread.ledger->reclaim(0, empty);
    thread.ledger->abandon(pinned);
    const Lock lock(mutex_);
    client::Attachment::Guarded& guarded = *thread.attachment->guarded;
    guarded.pool.give_back(empty);
    guarded.orphans.adopt(pinned);
  }
  thread.ledger.reset();
  thread.attachment.reset();
  thread.number = 0;
  thread.thread_gone = true;
}

}  // namespace orlop::detail
