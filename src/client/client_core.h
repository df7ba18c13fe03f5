// SPDX-License-Identifier: Apache-2.0
// What is behind a Client: one per Client object, shared with its plans, handles and futures.
//
// Threads
//   * Callers: any number. Reads touch only their ThreadState and shared memory; everything that
//     needs the node goes through mutex_.
//   * One housekeeping thread: attaches, watches server and keeper, comes back after a restart,
//     consumes answers that nobody waits for, expires handles, tidies ledgers.
//   * Consumer: of all threads that wait for answers, at most one at a time sleeps on the doorbell
//     (consumer_active_); what it takes for others it hands over through progress_.
// Locks, in this order: ThreadState::mutex, mutex_, Attachment::touch_mutex. No lock is held during
// a system call, except writes to a doorbell.
// Forked child: every public entry point asks forked() before it touches anything else.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "client/attachment.h"
#include "client/drain.h"
#include "client/memory_user.h"
#include "client/namespace_state.h"
#include "client/put_state.h"
#include "client/read_state.h"
#include "client/thread_state.h"
#include "orlop/client.h"
#include "platform/event_fd.h"
#include "platform/fork_guard.h"
#include "protocol/session/session.h"
#include "runtime/spin.h"

namespace orlop::client {
// This thread is some client's own: it must not wait for the end of one.
inline thread_local bool on_library_thread = false;
}  // namespace orlop::client

namespace orlop::detail {

class ClientCore : public client::ThreadExitListener,
                   public std::enable_shared_from_this<ClientCore> {
 public:
  static std::shared_ptr<ClientCore> start(ClientOptions options);
  explicit ClientCore(ClientOptions options);  // use start()
  ~ClientCore() override;
  ClientCore(const ClientCore&) = delete;
  ClientCore& operator=(const ClientCore&) = delete;

  bool forked() const { return guard_.in_forked_child(); }
  const std::atomic<bool>& closed() const { return closed_; }
  void close();

  // ---- core_attach.cpp
  bool ready() const { return number_.load(std::memory_order_acquire) != 0 && serving_.load(); }
  bool wait_ready(Milliseconds timeout);
  Error last_attach_error();
  std::uint64_t segment_id();
  std::uint64_t incarnation() const { return incarnation_.load(); }
  MonoNs deadline_in(std::optional<Milliseconds> wanted) const;

  // ---- core_calls.cpp
  Result<std::shared_ptr<NamespaceState>> open_namespace(const NamespaceDescriptor& descriptor);
  Result<std::uint64_t> remove(NamespaceState& ns, std::span<const Key> keys);
  Result<std::uint64_t> flush(NamespaceState& ns, bool family);
  Result<void> ping();
  Result<DrainState> drain(protocol::DrainMode mode);  // drain.cpp
  bool belongs(const NamespaceState* ns) const { return ns != nullptr && ns->owner == this; }

  // ---- core_puts.cpp
  Result<std::shared_ptr<PutPlanState>> put_start(NamespaceState& ns, std::span<const Key> keys,
                                                  const PutOptions& options);
  Result<std::shared_ptr<FutureState>> put_commit(const std::shared_ptr<PutPlanState>& plan);
  void put_abort(const std::shared_ptr<PutPlanState>& plan);
  bool future_ready(FutureState& future);
  bool wait_future(FutureState& future, MonoNs deadline);
  Result<std::uint64_t> register_put_copy(const std::shared_ptr<PutPlanState>& plan);
  Result<std::span<const std::uint64_t>> put_blob(PutPlanState& plan);

  // ---- core_reads.cpp
  struct ReadRequest {
    std::span<const NamespaceState* const> ranks;
    std::span<const Key> keys;
    std::span<const std::uint32_t> group_lens;
  };
  Result<ReadState*> get_start(const ReadRequest& request, GetResult* result);
  // The handle stays usable on error, except when it has expired or was closed.
  Result<void> get_transfer(ReadState& handle, std::optional<std::uint32_t> pages);
  // The user lets go of a handle or plan, in whatever phase it is.
  void drop_read(ReadState* state);
  Result<ExistsResult> exists(const NamespaceState& ns, std::span<const Key> keys);

  // ---- core_plans.cpp
  Result<std::uint64_t> register_read_copy(ReadState& plan);
  Result<void> copy_done(std::uint64_t copy, bool success, const void* plan);
  Result<std::span<const std::uint64_t>> read_blob(ReadState& plan);
  void report_mismatch(ReadState& plan, std::size_t page, std::size_t rank);
  ClientStats stats();

  // This page, or one after it, is a miss of this reader from now on; told to the node.
  void found_mismatch(ReadState& plan, std::size_t page, std::size_t rank);

  // ---- core_close.cpp
  // False: close() was called, and will not tell the user.
  [[nodiscard]] bool add_memory_user(const std::shared_ptr<client::MemoryUser>& user);
  std::shared_ptr<client::Attachment> attachment();  // in use, or null

  void thread_exits(client::ThreadState& state) override;

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Waiter {  // on the stack of a thread that waits for one answer
    bool done = false;
    bool lost = false;
    protocol::Answer answer;
  };
  struct CopyOwner {  // exactly one of the two
    ReadState* read = nullptr;
    std::shared_ptr<PutPlanState> put;
  };
  struct Attaching;  // what the housekeeping thread carries from attempt to attempt

  // ---- waiting for answers (core_calls.cpp); all hold mutex_
  using PostRequest =
      std::function<protocol::Posted(client::Attachment& attachment, std::uint64_t cookie)>;
  enum class CallEnd : std::uint8_t { kAnswered, kNoNode, kClosed, kTooLarge, kLimit, kNoPutIds };
  // Posts and waits, again after a reset, until the deadline. on: the attachment that answered.
  CallEnd call(Lock& lock, MonoNs deadline, const PostRequest& post, protocol::Answer* answer,
               std::shared_ptr<client::Attachment>* on);
  void wait_progress(Lock& lock, MonoNs deadline);
  void sleep_as_consumer(Lock& lock, const std::shared_ptr<client::Attachment>& on,
                         MonoNs deadline);
  void consume(client::Attachment& attachment);
  void deliver(protocol::Answer& answer);
  void lose(std::span<const protocol::Lost> lost);
  void ring_if_asleep(client::Attachment& attachment);
  void idle_ring();
  void notify() { progress_.notify_all(); }
  Error error_of(CallEnd end, const protocol::Answer& answer) const;
  Result<protocol::Answer> simple_call(NamespaceState* ns, const PostRequest& post);
  Result<void> resolve(Lock& lock, NamespaceState& ns, MonoNs deadline);

  // ---- puts; mutex_ held
  Result<void> take_grants(PutPlanState& plan, protocol::Answer& answer);
  bool sum_missing(PutPlanState& plan) const;  // without mutex_
  static void prepare_pages(const PutPlanState& plan, client::Attachment& attachment);
  void resolve_future(FutureState& future, std::span<const Outcome> committed, Outcome otherwise);
  void count_outcomes(std::span<const Outcome> outcomes);
  void end_put(PutPlanState& plan, PutPlanState::Over over);  // unlinks, frees the blob
  void link_put(PutPlanState& plan);
  void put_copy_done(const std::shared_ptr<PutPlanState>& plan, bool success);

  // ---- reads; ThreadState::mutex held
  client::ThreadState& thread_state();
  void bind(client::ThreadState& thread);
  ReadState* take_read_state(client::ThreadState& thread);
  MissReason pin(client::ThreadState& thread, ReadState& state, const ReadRequest& request,
                 std::uint32_t* prefix);
  void tell_missed(client::Attachment& attachment, const KeyId& key, NamespaceRow row);
  std::uint32_t reserve_cells(client::ThreadState& thread, std::uint32_t count,
                              std::vector<std::uint32_t>& cells);
  static std::uint32_t sound_prefix(const client::Attachment& attachment,
                                    const ReadState::Rank& rank);
  void release_beyond(ReadState& state, std::uint32_t pages);
  void unpin(ReadState& state, bool touch);
  [[nodiscard]] std::shared_ptr<ClientCore> recycle(ReadState* state);
  void free_read_blob(ReadState& state);
  std::shared_ptr<client::ThreadState> find_free_thread_state();

  // ---- housekeeping thread (housekeeping.cpp)
  void run();
  bool attach_once();
  void publish(std::unique_ptr<client::Attachment> attachment, Incarnation incarnation);
  void serve_until_lost();
  bool resume_until_back();
  void server_lost();
  void wait_for_hang_up();
  void retire();
  bool keeper_gone() const;
  void pause(MonoNs time);
  void now_served();  // after an attach or resume
  void reopen_namespaces();
  MonoNs tick();
  void expire_handles(MonoNs now);
  void tidy_ledgers();
  MonoNs handle_ttl() const;

  // ---- report to the node (core_report.cpp)
  ClientStats collect(client::ReadCounters& reads);
  MonoNs oldest_read_plan(MonoNs now);
  void publish_report(MonoNs now);
  void tell_ready(bool ready);
  void attach_failed(Error error);

  // ---- close (core_close.cpp)
  std::vector<std::shared_ptr<client::MemoryUser>> memory_users();
  void end_thread();
  void end_writes(MonoNs deadline);
  void leave_node(MonoNs deadline);
  void wait_for_copies();
  bool copy_runs();
  void end_all_reads();
  void end_all_puts();  // mutex_ held
  void wait_for_commits(Lock& lock, MonoNs deadline);
  void detach(Lock& lock, MonoNs deadline, Waiter& waiter);

  ClientOptions options_;
  std::string socket_path_;
  ForkGuard guard_;
  const std::uint64_t serial_;  // of this object in this process; never reused
  EventFd wake_;                // the housekeeping thread has something to look at
  EventFd stop_bell_;           // rung once, when it has to end
  std::thread thread_;
  std::atomic<std::thread::id> own_thread_{};  // the library's thread; none: it has none
  std::mutex close_mutex_;  // one close() at a time, and the others wait for it; before mutex_

  // Read without mutex_; written by the housekeeping thread under it.
  std::atomic<std::uint64_t> number_{0};  // of the attachment in use; 0: none
  std::atomic<bool> serving_{false};      // a server serves it
  std::atomic<std::uint64_t> incarnation_{0};
  std::atomic<bool> closed_{false};  // close() was called: no new calls
  std::atomic<bool> stop_{false};    // the housekeeping thread ends

  mutable std::mutex mutex_;
  std::condition_variable progress_;
  std::shared_ptr<ClientCore> closing_;  // closed inside an on_ready: its own thread does the rest
  std::uint32_t waiting_ = 0;
  bool consumer_active_ = false;
  runtime::AdaptiveSpin spin_;
  std::shared_ptr<client::Attachment> attachment_;
  std::uint64_t attachments_ = 0;  // numbers given out
  bool attach_tried_ = false;      // an attempt failed since there was no attachment
  bool session_broken_ = false;    // the node wrote nonsense: hang up
  bool idle_sleep_ = false;        // housekeeping sleeps long; whoever leaves an answer due rings
  std::uint64_t left_behind_ = 0;  // answers that callers left due
  std::uint64_t left_seen_ = 0;    // of them at the last tick
  Error attach_error_{ErrorCode::kNoNode, "the first attempt to attach is not over yet"};
  std::vector<std::shared_ptr<NamespaceState>> namespaces_;
  std::vector<std::weak_ptr<client::MemoryUser>> memory_users_;
  std::unordered_map<std::uint64_t, std::shared_ptr<FutureState>> commits_;  // by cookie
  std::uint64_t next_cookie_ = 1;
  PutPlanState* open_puts_ = nullptr;
  std::uint64_t open_put_count_ = 0;
  std::unordered_map<std::uint64_t, CopyOwner> copies_;
  // Puts under a failed copy: their memory, and with it this core, stays until the process ends.
  std::vector<std::shared_ptr<PutPlanState>> stuck_puts_;
  std::uint64_t next_copy_ = 1;
  std::vector<std::shared_ptr<client::ThreadState>> threads_;
  client::ReadCounters past_reads_;  // of ThreadStates that are gone
  std::vector<std::uint32_t> unique_scratch_, chunk_scratch_;
  ClientStats counters_;  // puts, attaches; the rest is added by stats()
  segment::LatencyCounts put_latency_;
  segment::ReportCounters reported_;     // what any node was told
  segment::ReportCounters report_base_;  // of it: what nodes before this attachment's were told
  protocol::Answer answer_scratch_;
  std::uint64_t stuck_reads_ = 0;  // read plans under a failed copy
  // Housekeeping thread only:
  FileDescriptor socket_;
  std::uint64_t nonce_ = 0;  // of the next attachment; 0: to be drawn
  MonoNs next_tidy_ = 0;
  MonoNs next_report_ = 0;
  bool unresolved_ = false;  // a namespace could not be opened again yet
};

}  // namespace orlop::detail
