// SPDX-License-Identifier: Apache-2.0
// liborlop: an engine worker's door to the node of its host.
//
//   orlop::Client client({.name = "worker-0"});
//   auto ns = client.open_namespace(descriptor);
//   // write: reserve, copy, commit
//   auto plan = client.put_start(*ns, keys);
//   for (std::size_t i = 0; i < keys.size(); ++i)
//     if (plan->outcome(i) == Outcome::kPrepared) plan->copy_in(i, pages[i]);
//   Future done = client.put_commit(*plan);
//   // read: pin, copy, release
//   auto handle = client.get_start(*ns, keys);
//   auto views = client.get_transfer(*handle);
//   for (std::size_t i = 0; i < views->size(); ++i) views->copy_out(i, pages[i]);
//   client.release_views(*views);
//
// Guarantees
//   * Local reads need no RPC, no syscall, no lock held by another process; they go on while no
//     server lives.
//   * No call blocks without a deadline; expiry is a miss / kNoNode, never a hang.
//   * Bytes returned as a hit match their checksum, or the hit is turned into a miss.
//   * A plan's memory is not reused before the plan has ended and its registered copies are done.
//   * A client may start before its node: attach happens in the background, and again after a
//     restart of the node; until then every read is a miss `not_attached` and every put answers
//     kNoNode.
// Thread: a Client is thread-safe. A plan or handle belongs to one thread at a time.
//   * Two calls of one plan do not overlap: a commit, abort or release that comes upon a copy of
//     another thread answers kWrongState and changes nothing; destroying the plan there ends the
//     process.
//   * close() may be called on any thread at any time.
// Fork: every object of the parent answers kForkedChild in a child; its destructor does nothing.
// Errors: misuse is an Error that names argument, index and remedy; nothing is reserved or changed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orlop/error.h"
#include "orlop/namespace.h"
#include "orlop/outcome.h"

namespace orlop {

using Key = std::string_view;  // any bytes, 1..4096 of them
using Milliseconds = std::chrono::milliseconds;

struct ClientOptions {
  std::string socket{};           // empty: $ORLOP_SOCKET, else the node's default place
  std::string name{};             // shown by `orlop status`; empty: the program's name
  Milliseconds call_budget{200};  // calls that need the server wait at most this long
  // GetHandles never transferred are cancelled after this. Here and wherever a time is given, more
  // than a year is a year.
  Milliseconds handle_ttl{30'000};
  std::uint32_t ledger_cells = 1'000'000;  // pages that can be pinned at once
  // Called from the library's own thread when the client becomes attached (true) or loses its
  // node (false). May call ready() and close(), and may drop the last reference of the Client, both
  // of which return at once: that thread closes the client when the callback has returned. The same
  // of other Clients: they are closed by threads of their own. Nothing else.
  std::function<void(bool)> on_ready{};
};

namespace detail {
class ClientCore;
struct NamespaceState;
struct PutPlanState;
struct ReadState;
struct FutureState;
struct ClientAccess;
}  // namespace detail

// Handle of an open namespace; cheap to copy. Belongs to the Client that opened it.
class Namespace {
 public:
  Namespace() = default;
  // Requires: came from open_namespace (a default-made one has none).
  const NamespaceDescriptor& descriptor() const;
  std::uint32_t value_len() const;
  bool resolved() const;  // the node knows it

 private:
  friend struct detail::ClientAccess;
  std::shared_ptr<detail::NamespaceState> state_;
};

struct PutOptions {
  std::vector<std::uint32_t> atomic_group_lens{};  // positive, sum = keys; empty: one key per group
  std::optional<Key> parent{};  // the key before keys[0]; makes the prefix tree known to eviction
  // Accepted and kept; used once there are other tiers. replicate_mask: one entry per key or empty,
  // uniform inside a group.
  bool replicate = false;
  std::vector<bool> replicate_mask{};
  bool write_through = false;
  std::optional<Milliseconds> deadline{};  // default: ClientOptions::call_budget
};

// Resolves exactly once, with one outcome per key of the put: answered by the node, or kNoNode when
// the node's memory or this client is gone. Cheap to copy; may be dropped, the commit goes on.
// Thread: any.
class Future {
 public:
  Future() = default;  // never resolves
  bool ready() const;  // polls, never blocks
  // nullopt after `timeout` and in a forked child; may be asked again.
  std::optional<std::vector<Outcome>> wait(Milliseconds timeout) const;

 private:
  friend struct detail::ClientAccess;
  std::shared_ptr<detail::FutureState> state_;
};

// Memory of one put, writable until commit or abort. Dropping it aborts it. After its end every
// call answers kWrongState, size() 0 and empty spans.
class PutPlan {
 public:
  PutPlan(PutPlan&&) noexcept;
  PutPlan& operator=(PutPlan&&) noexcept;
  ~PutPlan();

  std::size_t size() const;              // keys of the put
  std::size_t prepared() const;          // keys that got memory
  Outcome outcome(std::size_t i) const;  // kPrepared, or why there is no memory
  std::string_view explanation() const;  // of kNoSpace, kOverQuota, kNotAdmitted: why, in words
  // Writable bytes of key i; empty unless kPrepared. Whoever writes through it and not through
  // copy_in is responsible for being done before commit; its checksum is then computed at commit.
  std::span<std::byte> memory(std::size_t i) const;
  // One-pass copy and checksum. Errors: key not prepared, source not value_len long, plan over.
  Result<void> copy_in(std::size_t i, std::span<const std::byte> source);
  // Checksum computed elsewhere (a GPU kernel) for memory(i).
  Result<void> set_checksum(std::size_t i, std::uint64_t checksum);
  // A copy that somebody else runs (GPU): the plan does not end before every registered copy is
  // reported done, here or by Client::copy_done when the plan object is gone. Until then an abort
  // only marks it, and a commit is refused. A copy that failed keeps the plan until this process
  // ends.
  Result<std::uint64_t> register_copy();
  Result<void> copy_done(std::uint64_t copy, bool success);
  // Plan blob {magic, count, value_ptrs[count]} of the prepared keys, in key order; valid until the
  // plan ends. Error kLimit: all plan blobs together fill the channel's part for them.
  Result<std::span<const std::uint64_t>> blob();

 private:
  friend struct detail::ClientAccess;
  PutPlan() = default;
  std::shared_ptr<detail::PutPlanState> state_;
};

struct GetOptions {
  std::vector<std::uint32_t> atomic_group_lens{};  // the reader's groups; empty: one key per group
};

struct GetResult {
  std::uint32_t raw_prefix_hit_len = 0;  // keys pinned as a prefix before rounding to groups
  std::uint32_t transferable_len = 0;    // rounded down to whole groups
  std::uint32_t prefix_hit_groups = 0;
  std::uint32_t first_miss_index = 0;  // = number of keys if all hit
  std::uint32_t first_miss_group_index = 0;
  bool all_hit = false;
  MissReason reason = MissReason::kNone;  // of the first miss
};

// A pinned prefix, not yet transferred. Dropping it cancels it; so does handle_ttl.
class GetHandle {
 public:
  GetHandle(GetHandle&&) noexcept;
  GetHandle& operator=(GetHandle&&) noexcept;
  ~GetHandle();
  const GetResult& result() const { return result_; }  // also after the end

 private:
  friend struct detail::ClientAccess;
  GetHandle() = default;
  GetResult result_;
  detail::ReadState* state_ = nullptr;  // null: transferred or cancelled
};

// Readable values of a prefix, held until release_views. Dropping it releases it. After its end
// every call answers kWrongState, size() 0 and empty spans.
class ReadPlan {
 public:
  ReadPlan(ReadPlan&&) noexcept;
  ReadPlan& operator=(ReadPlan&&) noexcept;
  ~ReadPlan();

  std::size_t size() const;   // pages
  std::size_t ranks() const;  // 1, or the cohort's size
  // Bytes of page i, checked against the checksum on first access; empty after a mismatch (which
  // is reported to the node, counted, and makes this page and all after it misses).
  std::span<const std::byte> view(std::size_t i, std::size_t rank = 0);
  std::span<const std::byte> view_unverified(std::size_t i, std::size_t rank = 0) const;
  // One-pass copy and check. False = mismatch: the destination's bytes must not be used.
  Result<bool> copy_out(std::size_t i, std::span<std::byte> destination, std::size_t rank = 0);
  std::size_t valid_len() const;  // pages before the first mismatch
  // What the restore kernel compares with; and what it found.
  std::uint64_t expected_checksum(std::size_t i, std::size_t rank = 0) const;
  Result<void> report_mismatch(std::size_t i, std::size_t rank = 0);
  // As of PutPlan.
  Result<std::uint64_t> register_copy();
  Result<void> copy_done(std::uint64_t copy, bool success);
  Result<std::span<const std::uint64_t>> blob();  // page-major: page 0 of all ranks first

 private:
  friend struct detail::ClientAccess;
  ReadPlan() = default;
  detail::ReadState* state_ = nullptr;  // null: released
};

struct ExistsResult {
  std::uint32_t prefix_len = 0;
  std::vector<bool> present;  // one per key
};

struct ClientStats {  // of this client object, since it was opened
  std::uint64_t gets = 0, keys_asked = 0, keys_hit = 0, bytes_read = 0;
  std::uint64_t puts = 0, keys_put = 0, keys_stored = 0, bytes_written = 0;
  std::uint64_t misses[kMissReasonCount] = {};
  std::uint64_t outcomes[kOutcomeCount] = {};
  std::uint64_t mismatches = 0, attaches = 0, resumes = 0, aborted_late = 0;
  std::uint64_t open_read_plans = 0, open_put_plans = 0, open_handles = 0;  // gauges
  std::uint64_t pinned_bytes = 0, pin_cap_bytes = 0;
};

class Client {
 public:
  explicit Client(ClientOptions options = {});
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();  // close()

  bool ready() const;  // attached, calls go through
  bool wait_ready(Milliseconds timeout) const;
  Error last_attach_error() const;   // why not ready: the last attempt's error
  std::uint64_t segment_id() const;  // 0 while not attached
  std::uint64_t incarnation() const;

  // Never waits longer than the call budget. Without a node the handle is returned unresolved and
  // resolved after the attach. Errors: descriptor invalid, conflict, table full, forked child.
  Result<Namespace> open_namespace(const NamespaceDescriptor& descriptor);

  // keys: 1..65,535, unique, ordered. One round trip. Without a node in time: a plan whose outcomes
  // are all kNoNode. Error kLimit: too many open puts, or more keys than the channel can carry.
  Result<PutPlan> put_start(const Namespace& ns, std::span<const Key> keys,
                            const PutOptions& options = {});
  // Consumes the plan; posts and returns. Only after the bytes are written. Error kWrongState with
  // the plan left usable: registered copies are not done.
  Result<Future> put_commit(PutPlan& plan);
  Result<void> put_abort(PutPlan& plan);
  // put_start, copy_in, put_commit, wait. buffers: one per key, value_len each.
  Result<std::vector<Outcome>> put(const Namespace& ns, std::span<const Key> keys,
                                   std::span<const std::span<const std::byte>> buffers,
                                   const PutOptions& options = {});

  Result<GetHandle> get_start(const Namespace& ns, std::span<const Key> keys,
                              const GetOptions& options = {});
  // One decision for several ranks of one family: the prefix that every rank's namespace has, all
  // of it pinned by this client.
  Result<GetHandle> get_start_cohort(std::span<const Namespace> ranks, std::span<const Key> keys,
                                     const GetOptions& options = {});
  // consume_prefix_len: at most transferable_len and on a group boundary; a wrong length leaves the
  // handle usable. Consumes the handle otherwise.
  Result<ReadPlan> get_transfer(GetHandle& handle,
                                std::optional<std::uint32_t> consume_prefix_len = {});
  Result<void> cancel_get(GetHandle& handle);
  Result<void> release_views(ReadPlan& plan);
  // Reports a copy of a plan whose object is gone (released, aborted or dropped under the copy).
  Result<void> copy_done(std::uint64_t copy, bool success);
  // Copies the longest valid prefix into buffers; returns its length.
  Result<std::uint32_t> get(const Namespace& ns, std::span<const Key> keys,
                            std::span<const std::span<std::byte>> buffers,
                            const GetOptions& options = {});

  Result<ExistsResult> exists(const Namespace& ns, std::span<const Key> keys);  // pins nothing
  // Dooms the writers' whole groups of these keys. Returns slots doomed. Error kNoNode: no answer
  // in time; as with flush, what was asked may still be carried out by a node that comes to itself.
  Result<std::uint64_t> remove(const Namespace& ns, std::span<const Key> keys);
  // A plan begun after flush returned never sees bytes from before. Fails loudly without a
  // node: kNoNode, as of remove.
  Result<std::uint64_t> flush(const Namespace& ns);
  Result<std::uint64_t> flush_family(const Namespace& ns);
  Result<void> ping();  // one round trip through the rings

  ClientStats stats() const;
  // First waits for every copy that runs: copy_in, copy_out, the check of a view, the checksums of
  // a commit, of whole-value put and get as well. It takes as long as the copies do, no new one
  // begins (kClosed, an empty view), and no memory is given to anyone under one. Spans that memory,
  // view and view_unverified returned are the caller's to be done with before, or to be covered by
  // a registered copy.
  // Then ends every plan and handle (their objects answer kClosed from now on; plans with
  // registered copies end after them, or with the process), waits at most the call budget for
  // commits in flight, and as long for the node's answer to an attach that is under way, detaches.
  // Idempotent; a second caller waits for the first.
  void close();

 private:
  friend struct detail::ClientAccess;
  std::shared_ptr<detail::ClientCore> core_;
};

}  // namespace orlop
