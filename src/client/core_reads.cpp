// SPDX-License-Identifier: Apache-2.0
// ClientCore: local reads. No RPC, no system call; the calling thread's own lock and shared memory.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "client/arguments.h"
#include "client/client_core.h"
#include "client/limits.h"
#include "platform/clock.h"
#include "platform/pause_point.h"
#include "segment/geometry.h"
#include "segment/missed_ring.h"
#include "segment/pin.h"

namespace orlop::detail {

using client::Attachment;
using client::ThreadState;

namespace {

// Takes as many of `count` pages of `bytes` as the pin budget has; returns how many.
std::uint32_t take_budget(Attachment& attachment, std::uint32_t count, std::uint64_t bytes) {
  std::uint64_t cap = attachment.area.header().pin_cap_bytes.load(std::memory_order_relaxed);
  // Not written yet: the default share of one client (design 10 section 3).
  if (cap == 0) cap = attachment.value_memory.size() / 4;
  std::uint64_t used = attachment.pinned_bytes.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint64_t room = used < cap ? (cap - used) / bytes : 0;
    const std::uint64_t taken = std::min<std::uint64_t>(room, count);
    if (attachment.pinned_bytes.compare_exchange_weak(used, used + taken * bytes,
                                                      std::memory_order_relaxed))
      return static_cast<std::uint32_t>(taken);
  }
}

}  // namespace

// The calling thread's state; made on its first read.
ThreadState& ClientCore::thread_state() {
  if (ThreadState* found = client::find_thread_state(serial_)) return *found;
  std::shared_ptr<ThreadState> state = find_free_thread_state();
  ThreadState& made = *state;
  if (!client::remember_thread_state(serial_, state, weak_from_this(), guard_)) {
    // A read from a destructor of another thread-local object: the state serves this one read.
    const std::lock_guard lock(made.mutex);
    made.thread_gone = true;
  }
  return made;
}

// One of a thread that ended, or a new one.
std::shared_ptr<ThreadState> ClientCore::find_free_thread_state() {
  std::vector<std::shared_ptr<ThreadState>> all;
  {
    const Lock lock(mutex_);
    all = threads_;
  }
  for (const std::shared_ptr<ThreadState>& state : all) {
    const std::lock_guard lock(state->mutex);
    if (!state->thread_gone) continue;
    state->thread_gone = false;
    return state;
  }
  auto made = std::make_shared<ThreadState>();
  const Lock lock(mutex_);
  threads_.push_back(made);
  return made;
}

// Thread's mutex held: makes it work on the attachment in use, or on none.
void ClientCore::bind(ThreadState& thread) {
  if (thread.number == number_.load(std::memory_order_acquire)) return;
  const Lock lock(mutex_);
  thread.number = number_.load(std::memory_order_relaxed);
  thread.attachment = attachment_;
  thread.ledger.reset();
  if (thread.attachment != nullptr) thread.ledger.emplace(thread.attachment->channel);
}

ReadState* ClientCore::take_read_state(ThreadState& thread) {
  std::unique_ptr<ReadState> state;
  if (!thread.spare.empty()) {
    state = std::move(thread.spare.back());
    thread.spare.pop_back();
  } else {
    state = std::make_unique<ReadState>();
    state->ranks.resize(1);
  }
  state->core = shared_from_this();
  state->home = &thread;
  state->phase.store(ReadState::Phase::kHandle, std::memory_order_relaxed);
  state->life = {};
  state->pages = 0;
  state->rank_count = 1;
  state->pinned = false;
  state->transferred = false;
  state->pinned_bytes = 0;
  state->expires = 0;
  state->seen = 0;
  state->previous = nullptr;
  state->next = thread.open;
  (thread.open != nullptr ? thread.open->previous : thread.oldest) = state.get();
  thread.open = state.get();
  ++thread.handles;
  return state.release();
}

// Takes the state off its thread's list and keeps it for the next read. The caller holds the
// thread's mutex and lets go of what is returned after it: it may be the last use of the core.
std::shared_ptr<ClientCore> ClientCore::recycle(ReadState* state) {
  ThreadState& thread = *state->home;
  (state->previous != nullptr ? state->previous->next : thread.open) = state->next;
  (state->next != nullptr ? state->next->previous : thread.oldest) = state->previous;
  state->attachment.reset();
  std::shared_ptr<ClientCore> core = std::move(state->core);
  std::unique_ptr<ReadState> owned(state);
  if (thread.spare.size() < client::kSpareReadStates &&
      state->keys.capacity() <= client::kSpareReadPages && state->ranks.size() <= 8)
    thread.spare.push_back(std::move(owned));
  return core;
}

std::uint32_t ClientCore::reserve_cells(ThreadState& thread, std::uint32_t count,
                                        std::vector<std::uint32_t>& cells) {
  segment::ThreadLedger& ledger = *thread.ledger;
  if (const std::uint32_t missing = ledger.chunks_missing(count); missing != 0) {
    thread.chunks.clear();
    {
      const Lock lock(mutex_);
      thread.attachment->guarded->pool.take(missing, thread.chunks);
    }
    ledger.adopt(thread.chunks);
  }
  // Exhausted: what is left may still hold a shorter prefix.
  while (count > 0 && !ledger.reserve(count, cells)) count /= 2;
  return count;
}

// Pins the longest prefix that every rank has. prefix: its length before rounding to groups.
MissReason ClientCore::pin(ThreadState& thread, ReadState& state, const ReadRequest& request,
                           std::uint32_t* prefix) {
  Attachment& attachment = *thread.attachment;
  auto length = static_cast<std::uint32_t>(request.keys.size());
  MissReason reason = MissReason::kNone;
  NamespaceRow missed_in;  // when the reason is kNotFound
  state.rank_count = static_cast<std::uint32_t>(request.ranks.size());
  if (state.ranks.size() < state.rank_count) state.ranks.resize(state.rank_count);
  for (ReadState::Rank& rank : state.ranks) rank.pinned = 0;
  *prefix = 0;

  const segment::KeyHasher& hash = request.ranks[0]->hasher;
  const std::span<KeyId> keys = state.keys.fresh(length);
  for (std::size_t i = 0; i < keys.size(); ++i)
    keys[i] = hash.hash(request.keys[i].data(), request.keys[i].size());

  for (std::size_t r = 0; r < request.ranks.size() && length > 0; ++r) {
    const NamespaceState& ns = *request.ranks[r];
    ReadState::Rank& rank = state.ranks[r];
    rank.value_len = ns.descriptor.value_len;
    rank.digest = ns.digest.lo;
    const auto row = ns.row(thread.number);
    rank.ns = row ? attachment.area.current_index(*row) : NamespaceIndex{};
    if (rank.ns.value == 0) return MissReason::kNotAttached;

    const std::uint64_t slot_bytes = segment::slot_bytes(rank.value_len);
    const std::uint32_t allowed = take_budget(attachment, length, slot_bytes);
    if (allowed < length) reason = MissReason::kPinBudget;
    const std::uint32_t reserved = reserve_cells(thread, allowed, rank.cells);
    if (reserved < allowed) reason = MissReason::kLedgerFull;
    std::uint32_t pinned = 0;
    if (reserved > 0) {
      const std::span<segment::PinnedSlot> pins = rank.pins.fresh(reserved);
      const segment::PinResult result = segment::pin_prefix(
          attachment.area, attachment.channel, rank.cells, keys.first(reserved), rank.ns, pins);
      pinned = result.pinned;
      if (pinned < reserved) {
        reason =
            result.stop == segment::PinStop::kRaced ? MissReason::kRaced : MissReason::kNotFound;
        missed_in = *row;
      }
    }
    rank.pinned = pinned;
    state.pinned_bytes += pinned * slot_bytes;
    attachment.pinned_bytes.fetch_sub((allowed - pinned) * slot_bytes, std::memory_order_relaxed);
    const std::uint32_t sound = sound_prefix(attachment, rank);
    if (sound < pinned) reason = MissReason::kMismatch;
    length = sound;
  }
  *prefix = length;
  if (reason == MissReason::kNotFound) tell_missed(attachment, keys[length], missed_in);
  return reason;
}

// For the node's count of causes; loses what it does not take in time.
void ClientCore::tell_missed(Attachment& attachment, const KeyId& key, NamespaceRow row) {
  const std::lock_guard lock(attachment.touch_mutex);
  segment::write_missed(attachment.channel, {key, row});
}

// Rows are written by the node alone; still, a length that is not the namespace's or a slot outside
// of the memory must not become a view.
std::uint32_t ClientCore::sound_prefix(const Attachment& attachment, const ReadState::Rank& rank) {
  for (std::uint32_t i = 0; i < rank.pinned; ++i) {
    const segment::PinnedSlot& pin = rank.pins[i];
    if (pin.value_len != rank.value_len ||
        !attachment.area.geometry().in_bounds(pin.slot, pin.value_len))
      return i;
  }
  return rank.pinned;
}

// Gives back everything beyond the first `pages` of every rank.
void ClientCore::release_beyond(ReadState& state, std::uint32_t pages) {
  for (std::uint32_t r = 0; r < state.rank_count; ++r) {
    ReadState::Rank& rank = state.ranks[r];
    if (rank.pinned <= pages) continue;
    segment::release_cells(state.attachment->channel,
                           std::span(rank.cells).subspan(pages, rank.pinned - pages));
    const std::uint64_t bytes = (rank.pinned - pages) * segment::slot_bytes(rank.value_len);
    state.attachment->pinned_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    state.pinned_bytes -= bytes;
    rank.pinned = pages;
  }
  state.pages = pages;
}

void ClientCore::unpin(ReadState& state, bool touch) {
  if (!state.pinned) return;
  state.pinned = false;
  Attachment& attachment = *state.attachment;
  if (touch && state.pages > 0) {
    const std::lock_guard lock(attachment.touch_mutex);
    for (std::uint32_t r = 0; r < state.rank_count; ++r)
      segment::touch(attachment.channel, {state.ranks[r].pins.data(), state.pages});
  }
  for (std::uint32_t r = 0; r < state.rank_count; ++r)
    segment::release_cells(attachment.channel, std::span(state.ranks[r].cells).first(state.pages));
  attachment.pinned_bytes.fetch_sub(state.pinned_bytes, std::memory_order_relaxed);
  if (state.blob_bytes != 0) free_read_blob(state);
}

Result<ReadState*> ClientCore::get_start(const ReadRequest& request, GetResult* result) {
  if (auto checked = client::check_keys(request.keys); !checked)
    return std::unexpected(checked.error());
  if (auto checked = client::check_group_lens(request.group_lens, request.keys.size()); !checked)
    return std::unexpected(checked.error());
  const auto count = static_cast<std::uint32_t>(request.keys.size());
  ThreadState& thread = thread_state();
  const std::lock_guard lock(thread.mutex);
  // Under the lock: what is pinned after close() has been here would be nobody's to unpin.
  if (closed_.load(std::memory_order_relaxed))
    return fail(ErrorCode::kClosed, "client: was closed");
  const bool timed = thread.counters.gets % client::kTimedGets == 0;
  const MonoNs begun = timed ? monotonic_ns() : 0;
  if (thread.handles + thread.plans >= client::kMaxOpenReadsPerThread) {
    return fail(ErrorCode::kLimit, "get: this thread has " +
                                       std::to_string(client::kMaxOpenReadsPerThread) +
                                       " handles and plans open; release some");
  }
  bind(thread);
  ReadState* state = take_read_state(thread);
  state->group_lens.assign(request.group_lens.begin(), request.group_lens.end());

  std::uint32_t raw = 0;
  MissReason reason = MissReason::kNotAttached;
  if (thread.attachment != nullptr) {
    state->attachment = thread.attachment;
    state->pinned = true;
    reason = pin(thread, *state, request, &raw);
  }
  PAUSE_POINT(kClientPinned);
  const client::WholeGroups whole = client::whole_groups(request.group_lens, raw);
  if (state->pinned) release_beyond(*state, whole.keys);
  // Members of the reader's group are here and one is not: pages went, or were put, one by one.
  if (reason == MissReason::kNotFound && raw > whole.keys) reason = MissReason::kGroupIncomplete;

  *result = {.raw_prefix_hit_len = raw,
             .transferable_len = whole.keys,
             .prefix_hit_groups = whole.groups,
             .first_miss_index = raw,
             .first_miss_group_index = whole.groups,
             .all_hit = raw == count,
             .reason = raw == count ? MissReason::kNone : reason};
  ++thread.counters.gets;
  thread.counters.keys_asked += count;
  thread.counters.keys_hit += whole.keys;
  ++thread.counters.misses[static_cast<std::size_t>(result->reason)];
  if (timed) thread.counters.latency.record(monotonic_ns() - begun);
  return state;
}

Result<void> ClientCore::get_transfer(ReadState& handle, std::optional<std::uint32_t> wanted) {
  const std::lock_guard lock(handle.home->mutex);
  switch (handle.phase.load(std::memory_order_relaxed)) {
    case ReadState::Phase::kHandle:
      break;
    case ReadState::Phase::kExpired:
      return fail(ErrorCode::kWrongState,
                  "handle: was cancelled after " + std::to_string(options_.handle_ttl.count()) +
                      " ms (ClientOptions::handle_ttl); ask again with get_start");
    default:
      return fail(ErrorCode::kClosed, "handle: its client was closed");
  }
  const std::uint32_t pages = wanted.value_or(handle.pages);
  if (pages > handle.pages) {
    return fail(ErrorCode::kInvalidArgument,
                "consume_prefix_len: is " + std::to_string(pages) + ", transferable are " +
                    std::to_string(handle.pages) + "; the handle stays usable");
  }
  const std::uint32_t boundary = client::whole_groups(handle.group_lens, pages).keys;
  if (boundary != pages) {
    return fail(ErrorCode::kInvalidArgument, "consume_prefix_len: " + std::to_string(pages) +
                                                 " is inside a group; the boundary before it is " +
                                                 std::to_string(boundary) +
                                                 "; the handle stays usable");
  }
  if (handle.pinned) release_beyond(handle, pages);
  handle.valid = pages;
  handle.verified.assign((std::uint64_t{pages} * handle.rank_count + 63) / 64, 0);
  handle.transferred = true;
  handle.phase.store(ReadState::Phase::kPlan, std::memory_order_relaxed);
  --handle.home->handles;
  ++handle.home->plans;
  for (std::uint32_t r = 0; r < handle.rank_count; ++r)
    handle.home->counters.bytes_read += std::uint64_t{pages} * handle.ranks[r].value_len;
  return {};
}

void ClientCore::drop_read(ReadState* state) {
  std::shared_ptr<ClientCore> last;  // let go of after the lock
  const std::lock_guard lock(state->home->mutex);
  PAUSE_POINT(kClientReleasing);
  const ReadState::Phase phase = state->phase.load(std::memory_order_relaxed);
  const bool ended = state->life.end() || state->life.state() == protocol::PlanLife::State::kEnded;
  if (!ended) {
    // Its copies are not done: the cells stay written until the last one is reported.
    state->phase.store(ReadState::Phase::kDropped, std::memory_order_relaxed);
    return;
  }
  unpin(*state, phase == ReadState::Phase::kPlan);
  --(state->transferred ? state->home->plans : state->home->handles);
  last = recycle(state);
}

Result<ExistsResult> ClientCore::exists(const NamespaceState& ns, std::span<const Key> keys) {
  if (auto checked = client::check_keys(keys); !checked) return std::unexpected(checked.error());
  if (closed_.load(std::memory_order_relaxed))
    return fail(ErrorCode::kClosed, "client: was closed");
  ExistsResult result;
  result.present.resize(keys.size());
  ThreadState& thread = thread_state();
  const std::lock_guard lock(thread.mutex);
  bind(thread);
  if (thread.attachment == nullptr) return result;
  const auto row = ns.row(thread.number);
  if (!row) return result;
  std::vector<KeyId> ids;
  ids.reserve(keys.size());
  for (const Key& key : keys) ids.push_back(ns.hasher.hash(key.data(), key.size()));
  std::vector<std::uint64_t> bitmap((keys.size() + 63) / 64);
  const NamespaceIndex index = thread.attachment->area.current_index(*row);
  if (index.value == 0) return result;
  result.prefix_len = segment::probe(thread.attachment->area, ids, index, bitmap);
  for (std::size_t i = 0; i < keys.size(); ++i)
    result.present[i] = (bitmap[i / 64] >> (i % 64) & 1) != 0;
  return result;
}

}  // namespace orlop::detail
