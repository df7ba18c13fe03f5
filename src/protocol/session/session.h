// SPDX-License-Identifier: Apache-2.0
// The client's half of one channel: what is asked, answered, held, kept and posted again. Pure: it
// reads and writes the channel's rings and arena and knows no OS, thread or clock. Used by liborlop
// under its mutex and by the simulator. One Session lives as long as one client id, over any number
// of restarts of the server. State x event table: docs/protocol/session.md.
//
// Rules it keeps
//   * Unanswered requests are always fewer than the response ring's cells, so the node never waits.
//   * Arena space of a request is free again only when its answer was consumed or a reset was
//     acknowledged, never because somebody stopped waiting.
//   * Requests that somebody waits for answer kNoRoom when there is no cell or no arena space
//   (wait,
//     consume, try again). Commits, aborts, reports and the detach never wait: they go to a private
//     queue which pump() posts, before any new request.
//   * A put is *held* from the moment its answer with memory was consumed until its commit was
//     answered or its abort was queued. Held puts are the re-attach snapshot (<= kMaxHeldPuts).
//   * A commit is kept with its checksums until it is answered, and is posted again after a reset.
//   * An answer to an abandoned put_start that brings memory queues its abort.
//   * A put ends only after its copies (plan_life.h).
//
// Use, all under one mutex:
//   post, commit, abort ...; pump(); if (must_ring()) ring the node's doorbell
//   while (next(answer) == kAnswer) wake whoever waits for answer.cookie
//   to sleep: if (prepare_sleep()) sleep on the client's doorbell; woke_up()
// Server gone (socket hang-up): lost(). New connection: reset(), send kResume with the snapshot;
// kResumed came: resumed(). A new segment instead: give_up().
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "orlop/outcome.h"
#include "protocol/messages.h"
#include "protocol/session/plan_life.h"
#include "segment/channel.h"
#include "segment/control_area.h"
#include "segment/plan_blob.h"
#include "segment/ring.h"

namespace orlop::protocol {

// Unanswered requests at once: fewer than the response ring's cells.
inline constexpr std::uint32_t kMaxUnanswered = segment::kRingCells - 1;
// Pending mismatch reports beyond this are dropped: the node checks one per client at a time.
inline constexpr std::size_t kMaxQueuedReports = 64;

// Arguments of a put_start; spans live for the call.
struct PutRequest {
  NamespaceRow row;
  std::uint32_t value_len = 0;
  std::uint64_t wait_us = 0;                    // for space; the node uses min(this, 10 ms)
  std::span<const KeyId> keys;                  // 1..kMaxKeysPerPut, unique (caller checked)
  std::span<const std::uint32_t> group_lens{};  // empty = one key per group; else sum = keys
  std::optional<KeyId> parent{};
};

enum class Post : std::uint8_t {
  kPosted,
  kNoRoom,       // no cell, no arena space or private queue not empty: consume and try again
  kNotAttached,  // between lost() and resumed(), or given up
  kTooLarge,     // would not fit into an empty arena
  kTooManyPuts,  // kMaxHeldPuts reached
  kNoPutIds,     // this client id has used up its 2^40 put ids: attach anew
};
struct Posted {
  Post result = Post::kNotAttached;
  RequestId request{};  // kPosted
  PutId put{};          // kPosted, put_start
};

// One answer. The caller keeps one object and passes it again: vectors keep their capacity.
struct Answer {
  RequestId request;
  RequestCode code = RequestCode::kPing;
  std::uint64_t cookie = 0;  // as given when posting; 0 = nobody waits (any more)
  PutId put;                 // put_start, commit, abort
  std::uint64_t status = kStatusOk;
  std::uint64_t args[3] = {0, 0, 0};
  std::vector<SlotGrant> grants;  // put_start: one per key
  std::vector<Outcome> outcomes;  // put_start: one per key; commit: one per entry
  std::string text;               // status != ok: the error; put_start: the pool's state
};

// A request that will never be answered (reset or give_up), or a put that is over.
struct Lost {
  RequestCode code = RequestCode::kPing;
  std::uint64_t cookie = 0;
  RequestId request;
};

struct ResumeSnapshot {
  std::uint32_t ring_generation = 0;
  std::vector<PutId> held;  // ascending
  // Requests in flight that somebody waits for: they may be asked again after resumed(). Commits
  // are not among them: they are kept and posted again.
  std::vector<Lost> lost;
};

class Session {
 public:
  enum class State : std::uint8_t {
    kAttached,  // a server serves the rings
    kLost,      // server gone; answers that it left may be consumed
    kReset,     // snapshot taken and rings empty; nothing is posted or consumed
    kOver,      // detached, or the segment is gone
  };
  enum class Next : std::uint8_t {
    kNone,
    kAnswer,
    kBroken,  // the node wrote nonsense: hang up; the session is kLost
  };

  // Over a channel that was just created (counters 0), for a client id never used before.
  Session(segment::ControlArea area, segment::ChannelView channel, ClientId client);

  State state() const { return state_; }
  ClientId client() const { return client_; }

  // ---- requests that somebody waits for. cookie: not 0, given back with the answer.
  Posted put_start(const PutRequest& request, std::uint64_t cookie);
  Posted open_namespace(std::string_view text, std::uint64_t cookie);
  Posted remove(NamespaceRow row, std::span<const KeyId> keys, std::uint64_t cookie);
  Posted flush(NamespaceRow row, bool family, std::uint64_t cookie);
  Posted drain(DrainMode mode, std::uint64_t cookie);
  Posted ping(std::uint64_t cookie);
  // Nobody waits for this answer any more. False: it was answered already (or lost).
  bool abandon(RequestId request);

  // ---- puts that are held
  // entries: one per slot granted, in key order. Requires: held, open, no copies registered (check
  // can_commit first). Queued; the answer brings cookie (0: nobody wants it).
  bool can_commit(PutId put) const;
  void commit(PutId put, std::vector<CommitEntry> entries, std::uint64_t cookie);
  void set_commit_cookie(PutId put, std::uint64_t cookie);
  // Open: ends now, or as soon as its copies are done. False: not held, or over already.
  bool abort(PutId put);
  bool register_copy(PutId put);            // false: not held or not open
  bool copy_done(PutId put, bool success);  // false: no such copy
  bool holds(PutId put) const { return puts_.contains(put); }
  std::size_t held_puts() const { return puts_.size(); }  // size of the snapshot now
  std::size_t kept_commits() const;                       // committed, not answered

  // ---- without waiting
  bool report(const MismatchReport& report);  // false: queue full, dropped
  void detach(std::uint64_t cookie);          // after it, only consuming is allowed

  // Posts from the private queue what has room. Call after queueing and after consuming.
  void pump();
  // Full fence, then: is the node asleep? Call once after posting; true = ring its doorbell.
  bool must_ring();

  // ---- consuming
  // Takes the next answer that concerns somebody. Answers to abandoned requests are dealt with
  // inside (aborts are queued: pump() afterwards).
  Next next(Answer* out);
  bool answer_waiting() const { return state_ != State::kReset && !responses_.empty(); }
  // Sets the sleep flag, full fence, looks again: true = the doorbell will ring for the next
  // answer.
  bool prepare_sleep();
  void woke_up();

  // ---- server life
  void lost();
  // The one critical section of a re-attach: snapshot, next ring generation, all four counters to
  // 0. Only while no server touches the rings: its socket is closed. Also from kReset, when the
  // server died before it answered.
  ResumeSnapshot reset();
  // kResumed came: arena free again; kept commits are queued in commit order.
  void resumed();
  // The segment is gone for good (new keeper): every waiting request and kept commit is returned,
  // no put is held any more. Read plans are not the session's affair.
  std::vector<Lost> give_up();

  // ---- gauges
  std::uint32_t unanswered() const { return unanswered_; }
  std::size_t queued() const { return private_queue_.size(); }
  std::uint64_t arena_used() const { return arena_.used(); }
  std::uint64_t aborted_late() const { return aborted_late_; }
  std::uint64_t reports_dropped() const { return reports_dropped_; }

 private:
  struct Region {
    std::uint32_t offset = 0;
    std::uint32_t bytes = 0;
    std::uint32_t request_bytes = 0;  // the answer begins at answer_offset() of it
  };
  struct Outstanding {
    RequestId request{};  // 0 = this entry is free
    RequestCode code = RequestCode::kPing;
    bool abandoned = false;
    bool region_free = false;  // planted bug kArenaReusedAtDeadline only
    std::uint32_t count = 0;   // keys or entries: what the answer must have
    std::uint64_t cookie = 0;
    PutId put{};
    Region region{};
  };
  struct HeldPut {
    PlanLife life;
    bool committed = false;
    bool forgotten = false;  // planted bug kPostedCommitForgotten only
    std::uint64_t commit_order = 0;
    std::uint64_t cookie = 0;
    std::vector<CommitEntry> entries;
  };
  struct Private {
    RequestCode code = RequestCode::kPing;
    PutId put{};
    MismatchReport report{};
  };

  bool cell_free();
  Post room_for_waiting(std::uint64_t bytes);
  std::optional<Region> allocate(std::uint64_t request_bytes, std::uint64_t answer_bytes);
  RequestId push(segment::RingMessage message, const Outstanding& entry);
  Posted post_plain(RequestCode code, std::span<const std::byte> body, std::uint64_t argument0,
                    std::uint64_t argument1, std::uint64_t cookie);
  bool post_private(const Private& item);
  bool post_commit(PutId put);
  void finish_put(PutId put);
  Outstanding* find(RequestId request);
  Next broken();
  bool read_answer(const segment::RingMessage& message, const Outstanding& entry,
                   Answer* out) const;
  bool deliver(const Outstanding& entry, Answer* out);
  void forget(Outstanding& entry);
  void drop_outstanding(std::vector<Lost>* lost);

  segment::ControlArea area_;
  segment::ChannelView channel_;
  ClientId client_;
  State state_ = State::kAttached;
  segment::RingProducer requests_;
  segment::RingConsumer responses_;
  std::uint32_t ring_generation_;
  segment::RangeAllocator arena_;
  std::vector<Region> retired_;           // of requests before a reset that is not acknowledged yet
  std::vector<Outstanding> outstanding_;  // kRingCells entries
  std::vector<std::uint32_t> free_entries_;
  std::uint32_t unanswered_ = 0;
  std::uint64_t next_request_ = 1;
  std::uint64_t next_put_ = 1;  // 2^40 = used up
  std::uint64_t next_commit_ = 1;
  std::uint32_t starting_ = 0;  // put_starts in flight: each may become a held put
  std::map<PutId, HeldPut> puts_;
  std::deque<Private> private_queue_;
  std::size_t queued_reports_ = 0;
  bool cells_denied_ = false;  // the node says that it has not taken what it has answered
  bool detaching_ = false;
  std::uint64_t detach_cookie_ = 0;
  std::uint64_t aborted_late_ = 0;
  std::uint64_t reports_dropped_ = 0;
};

}  // namespace orlop::protocol
