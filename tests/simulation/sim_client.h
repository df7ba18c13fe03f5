// SPDX-License-Identifier: Apache-2.0
// A client's place: an engine's worker process with liborlop in it, its device, its forked
// children; when it dies another takes the place. What the real library does around Session,
// pin_prefix and the ledger is written small here.
//
// Private memory of the process lies in `Private` and goes with it. What the simulation itself
// knows of it (which pins and puts may still touch memory) lies in `Family` and outlives it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device.h"
#include "options.h"
#include "protocol/session/session.h"
#include "removal_oracle.h"
#include "segment/ledger.h"
#include "segment/pin.h"
#include "value_bytes.h"
#include "verdict.h"
#include "wire.h"

namespace orlop::simulation {

class World;

class SimClient {
 public:
  SimClient(World& world, std::uint32_t number);

  void step();
  void step_device();  // the device makes progress, children exit

  // ---- the end of a run
  void spare() { family().process->stores_left = Process::kNoLimit; }  // no kill waits for it
  bool idle() const;  // attached, every namespace open, nothing under way
  bool gone() const;  // left for good, its children too
  void leave();       // detaches and does not come back
  // Puts one new page into a namespace, reads it back: the node must be able to. Poll the result.
  void begin_last_put(std::uint32_t ns);
  bool last_put_stored() const { return last_put_stored_; }
  void begin_drain_end();  // over when it is idle again
  // The page of the `nth` last put (1 = the first one), in this namespace. Over when idle.
  void begin_last_remove(std::uint32_t ns, std::uint32_t nth);
  // Samples that page as missed in this namespace.
  void tell_missed(std::uint32_t ns, std::uint32_t nth);
  // Whatever a client can do to its ring of missed keys.
  void spoil_missed();
  NamespaceRow row_of(std::uint32_t ns) const { return *my_->rows[ns]; }
  // One plan for each page it finds, until the pin budget or the ledger is used up.
  void pin_all();
  std::uint64_t pinned_bytes() const { return my_->pinned_bytes; }
  void ring_now();  // what was posted from outside its turn
  std::string what_is_open() const;

 private:
  enum class Line { kNone, kAttaching, kAttached, kHangingUp, kResuming };
  struct Operation {
    protocol::RequestCode code = protocol::RequestCode::kPing;
    RequestId request{};
    MonoNs deadline = kNever;
    std::uint32_t ns = 0;
    std::vector<KeyId> keys{};
    std::vector<std::uint32_t> group_lens{};
    std::uint64_t removal = 0;                     // in the removal oracle
    std::uint64_t drain = 0;                       // in the drain oracle; put_start: when posted
    PutId put{};                                   // commit
    std::vector<protocol::CommitEntry> entries{};  // commit
    std::vector<std::uint32_t> entry_groups{};     // commit: number of the entry's group
    std::uint64_t order = 0;                       // commit
    Sequence begun = 0;                            // put_start, commit: when the put was posted
    NamespaceIndex index{};                        // commit
    bool last_put = false;
    bool flushed = false;  // commit: its namespace was, before it was posted
  };
  struct PutPlan {
    std::uint32_t ns = 0;
    std::vector<protocol::CommitEntry> entries{};
    std::vector<KeyId> keys{};  // of the entries
    std::vector<std::uint32_t> entry_groups{};
    Sequence begun = 0;
    NamespaceIndex index;
    std::uint32_t copies = 0;  // queued
    bool aborted = false;
    bool stuck = false;
    bool last_put = false;
  };
  struct ReadPlan {
    std::uint32_t ns = 0;
    std::vector<std::uint32_t> cells;
    std::vector<segment::PinnedSlot> pinned;
    std::vector<KeyId> keys{};  // of the pinned
    NamespaceIndex index;
    protocol::PlanLife life;
    std::uint32_t copies = 0;  // queued
    bool ended = false;        // its owner gave it up; copies may be left
  };
  struct Private {
    std::uint64_t nonce = 0;
    Line line = Line::kNone;
    MonoNs retry_at = 0;
    std::shared_ptr<ChannelMemory> memory;
    segment::ChannelView channel;
    segment::ControlArea area;
    std::optional<segment::ChunkPool> chunks;
    std::vector<segment::ThreadLedger> threads;
    std::unique_ptr<protocol::Session> session;
    std::optional<NamespaceRow> rows[kMostNamespaces];
    std::shared_ptr<Doorbell> doorbell;
    std::uint32_t told_tail = 0;  // of the request ring, when the node was last thought of
    bool asleep = false;          // until the doorbell rings
    bool older_abi = false;       // its attach frame was of another version
    std::map<std::uint64_t, Operation> operations;  // by cookie
    std::map<PutId, PutPlan> puts;
    std::map<std::uint64_t, ReadPlan> reads;
    std::vector<std::uint64_t> abandoned_removals;
    std::uint64_t next_cookie = 1, next_commit = 1, commits_answered = 0;
    std::uint64_t pinned_bytes = 0;
    bool over = false;  // the segment is gone: only its plans are left
    bool leaving = false;
    bool detaching = false;
  };
  // A process and the children it forked. Its device lives as long as one of them.
  struct Family {
    std::shared_ptr<Process> process = std::make_shared<Process>();
    std::shared_ptr<ForkPipe> fork_pipe = std::make_shared<ForkPipe>();
    Device device;
    std::map<std::uint64_t, std::vector<segment::PinnedSlot>> pins;  // by read plan
    std::vector<PutId> writing;
    SimSegment* segment = nullptr;  // that it is attached to, or was last
  };

  // sim_client.cpp: life
  Family& family() { return *families_.back(); }
  SimSegment& segment() const { return *families_.back()->segment; }
  void be_born();
  void die();
  void end_family(Family& family);
  void turn();
  bool sleeps_on();
  void fall_asleep();
  void ring_if_posted();
  void do_some_work();
  void do_some_faults();
  void fill_the_ring();
  void come_to_an_end();
  // sim_client_line.cpp: the socket
  void drive_line();
  void connect();
  void attach();
  void resume();
  void hear_attaching();
  void hear_resuming();
  void hear_attached();
  void welcomed(const Packet& packet);
  void detached();
  void line_is_gone(MonoNs retry_after);
  void forget_lost(const std::vector<protocol::Lost>& lost);
  void segment_is_gone();
  void become_another();
  // sim_client_answers.cpp
  void consume();
  void answered(const protocol::Answer& answer);
  void put_started(const Operation& asked, const protocol::Answer& answer);
  void committed(const Operation& asked, const protocol::Answer& answer);
  bool may_be_evicted(const Operation& asked, std::size_t entry) const;
  void abandon_late();
  // sim_client_puts.cpp
  void remember(const protocol::Posted& posted, Operation operation, std::uint64_t cookie);
  void open_namespace();
  void start_put();
  void post_put(std::uint32_t ns, std::uint32_t first, std::uint32_t count, bool last_put);
  void remove_some();
  void flush_some();
  void drain(protocol::DrainMode mode);
  void advance_puts();
  void commit(PutId id, PutPlan& plan);
  void abort(PutId id, PutPlan& plan);
  void writing_is_over(PutId id, bool committed);
  // sim_client_reads.cpp
  struct Pages {
    std::uint32_t ns, first, count;
  };
  Pages choose_pages(bool to_write);
  void preempt();
  void start_read(const Pages& pages);
  std::uint32_t sound_prefix(const ReadPlan& plan, std::uint32_t pinned);
  void count_cells();
  bool reserve_cells(std::uint32_t count, std::vector<std::uint32_t>& cells);
  std::uint32_t index_epoch() const;
  void check_pinned(ReadPlan& plan, const std::vector<std::uint64_t>& floors);
  void check_bytes(const ReadPlan& plan, std::size_t page);
  void advance_reads();
  void end_read(std::uint64_t id, ReadPlan& plan);
  void release(std::uint64_t id);
  void report_mismatch(const ReadPlan& plan, bool scribble);
  void take_finished_copies();
  void write_finished(const Copy& copy);
  void read_finished(const Copy& copy);

  KeyId key(std::uint32_t ns, std::uint32_t number) const;
  protocol::Session& session() { return *my_->session; }
  bool opened_all() const;
  std::string name() const;
  void broken(Oracle oracle, const std::string& what);

  World& world_;
  const std::uint32_t number_;
  std::vector<std::unique_ptr<Family>> families_;  // the last one lives or died last
  std::unique_ptr<Private> my_;
  std::shared_ptr<Socket> socket_;
  MonoNs born_at_ = 0;
  std::uint64_t next_read_ = 1;
  bool leaves_for_good_ = false;
  bool exits_ = false;  // its process ends after this turn
  bool last_put_stored_ = false;
  std::uint32_t last_keys_ = 0;
  std::uint32_t at_ = 0;     // workload: where in the keys it is
  std::uint32_t depth_ = 0;  // ... and how far the conversation has come
};

}  // namespace orlop::simulation
