// SPDX-License-Identifier: Apache-2.0
#include "sim_client.h"

#include <algorithm>
#include <utility>

#include "base/sometimes.h"
#include "world.h"

namespace orlop::simulation {

SimClient::SimClient(World& world, std::uint32_t number) : world_(world), number_(number) {
  be_born();
}

void SimClient::be_born() {
  families_.push_back(std::make_unique<Family>());
  family().process->pid = world_.new_pid();
  my_ = std::make_unique<Private>();
  my_->nonce = world_.new_nonce();
}

void SimClient::step() {
  Process& process = *family().process;
  if (!process.alive) {
    if (!leaves_for_good_ && world_.now >= born_at_) be_born();
    return;
  }
  if (!world_.may_run(process, world_.options.client_killed, world_.options.client_paused)) return;
  const bool lived = run_as(process, world_, [this] { turn(); }, [this] { my_.reset(); });
  if (lived && !exits_) return;
  process.alive = false;
  exits_ = false;
  die();
}

// What is left to do when its code has stopped: the kernel closes its files.
void SimClient::die() {
  world_.note("client process " + std::to_string(family().process->pid) + " is dead");
  my_.reset();
  if (socket_) socket_->closed_by_client = true;
  socket_.reset();
  // Nobody looks at what it had pinned any more.
  for (const auto& [plan, pinned] : family().pins)
    for (const segment::PinnedSlot& page : pinned)
      segment().slots.reader_ends(page.slot, page.generation);
  family().pins.clear();
  --family().fork_pipe->writers;
  if (family().fork_pipe->closed()) end_family(family());
  born_at_ = world_.now + world_.rng.uniform(20 * kNsPerMs);
}

void SimClient::end_family(Family& ended) {
  ended.device.drop_all();
  for (const PutId put : ended.writing) ended.segment->slots.writer_ends(put);
  ended.writing.clear();
}

void SimClient::step_device() {
  for (const auto& one : families_) {
    for (std::uint64_t pieces = world_.rng.uniform(16); pieces > 0; --pieces)
      one->device.step(world_.rng, world_.calm() ? 0 : world_.options.copy_fails);
    const std::uint32_t children = one->fork_pipe->writers - (one->process->alive ? 1 : 0);
    if (children == 0 || !world_.roll(world_.calm() ? 200 : 10)) continue;
    --one->fork_pipe->writers;
    if (one->fork_pipe->closed()) end_family(*one);
  }
  const auto over = [](const std::unique_ptr<Family>& one) { return one->fork_pipe->closed(); };
  std::erase_if(families_, [&](const std::unique_ptr<Family>& one) {
    return one != families_.back() && over(one);
  });
}

void SimClient::turn() {
  if (my_->over) return become_another();
  drive_line();
  if (my_->over) return;
  if (!my_->session) {
    exits_ = leaves_for_good_;
    return;
  }
  if (sleeps_on()) return;
  consume();
  if (!my_->session) return;  // it has left
  take_finished_copies();
  abandon_late();
  advance_puts();
  advance_reads();
  if (my_->leaving || world_.calm()) {
    come_to_an_end();
  } else {
    do_some_work();
  }
  if (!my_->session) return;
  session().pump();
  ring_if_posted();
  fall_asleep();
}

// As the library does after posting: the node is woken only if it sleeps.
void SimClient::ring_if_posted() {
  std::uint32_t tail = 0;
  {
    const Unobserved quiet;
    tail = my_->channel.header().request_tail.load();
  }
  if (tail == my_->told_tail) return;
  my_->told_tail = tail;
  if (session().must_ring()) world_.ring(world_.node_doorbell);
}

void SimClient::ring_now() {
  run_as(*family().process, world_, [this] { ring_if_posted(); }, [this] { my_.reset(); });
}

// Waits for nothing but answers: then only a doorbell, or the end of the line, wakes it.
void SimClient::fall_asleep() {
  const bool waits = !my_->operations.empty() && my_->puts.empty() && my_->reads.empty() &&
                     my_->line == Line::kAttached;
  my_->asleep = waits && world_.roll(500) && session().prepare_sleep();
  SOMETIMES(my_->asleep, "sim: a client sleeps until an answer comes");
}

bool SimClient::sleeps_on() {
  if (!my_->asleep) return false;
  const bool rung = world_.take_rings(*my_->doorbell);
  SOMETIMES(rung, "sim: a doorbell wakes a client");
  // Without faults nothing else wakes it: a doorbell that was not rung is a client that hangs.
  const bool other_thread = !world_.calm() && world_.roll(20);
  if (!rung && my_->line == Line::kAttached && !other_thread) return true;
  my_->asleep = false;
  session().woke_up();
  return false;
}

void SimClient::do_some_faults() {
  const Options& o = world_.options;
  if (world_.fault(o.client_forks)) ++family().fork_pipe->writers;
  if (world_.fault(o.client_detaches)) my_->leaving = true;
  if (world_.fault(o.client_hangs_up) && my_->line == Line::kAttached) {
    world_.note(name() + " hangs up");
    socket_->closed_by_client = true;
    my_->line = Line::kHangingUp;
  }
}

void SimClient::do_some_work() {
  const Options& o = world_.options;
  do_some_faults();
  if (!opened_all()) return open_namespace();
  if (o.most_operations > segment::kRingCells && world_.roll(5)) fill_the_ring();
  if (world_.fault(o.preempted)) return preempt();
  if (world_.roll(o.remove)) remove_some();
  if (world_.roll(o.flush)) flush_some();
  // More ends than beginnings: while the node drains nothing new is written.
  if (o.drain != 0 && world_.roll(o.drain))
    drain(world_.roll(400) ? protocol::DrainMode::kBegin : protocol::DrainMode::kEnd);
  if (world_.roll(250)) start_put();
  if (world_.roll(350)) start_read(choose_pages(false));
}

SimClient::Pages SimClient::choose_pages(bool to_write) {
  const Options& o = world_.options;
  Rng& rng = world_.rng;
  const auto ns = static_cast<std::uint32_t>(rng.uniform(o.namespaces()));
  auto first = static_cast<std::uint32_t>(rng.uniform(o.keys));
  // Reads begin mostly at the start of a conversation, as engines' do.
  if (world_.roll(to_write ? 500 : 700)) first -= first % o.chain_length;
  if (world_.roll(200)) return {ns, first, static_cast<std::uint32_t>(rng.between(1, 4))};
  const auto any = static_cast<std::uint32_t>(rng.between(1, o.chain_length));
  switch (o.workload) {
    case Workload::kConversation:
      if (to_write && ++depth_ > o.chain_length) {
        depth_ = 1;
        at_ = first - first % o.chain_length;
      }
      return {ns, at_, std::max(depth_, 1U)};
    case Workload::kScan:
      if (to_write) at_ = (at_ + any) % o.keys;
      return {ns, at_, any};
    case Workload::kSharedPrefix:
      return {ns, 0, any};
    case Workload::kMixed:
    case Workload::kAbortHappy:
    case Workload::kPreemption:
      break;
  }
  return {ns, first, any};
}

// An engine that lacks memory gives up what it reads and writes, and asks for it again soon.
void SimClient::preempt() {
  world_.note(name() + " is preempted");
  std::vector<std::uint64_t> reads;
  for (const auto& [id, plan] : my_->reads)
    if (!plan.ended) reads.push_back(id);
  for (const std::uint64_t id : reads) end_read(id, my_->reads.at(id));
  std::vector<PutId> puts;
  for (const auto& [id, plan] : my_->puts)
    if (!plan.aborted && !plan.stuck) puts.push_back(id);
  for (const PutId id : puts) abort(id, my_->puts.at(id));
  SOMETIMES(reads.size() + puts.size() > 3, "sim: a busy client is preempted");
}

void SimClient::fill_the_ring() {
  protocol::Posted posted;
  do {
    const std::uint64_t cookie = my_->next_cookie++;
    posted = session().ping(cookie);
    remember(posted, {.code = protocol::RequestCode::kPing}, cookie);
  } while (posted.result == protocol::Post::kPosted);
  SOMETIMES(session().unanswered() == protocol::kMaxUnanswered, "sim: the rings are full");
}

// No new work; detaches when asked to, once nothing is left.
void SimClient::come_to_an_end() {
  if (!opened_all() && !my_->leaving && !leaves_for_good_) open_namespace();
  const bool stuck = std::any_of(my_->puts.begin(), my_->puts.end(),
                                 [](const auto& put) { return put.second.stuck; });
  const bool stuck_read = std::any_of(my_->reads.begin(), my_->reads.end(),
                                      [](const auto& read) { return read.second.life.stuck(); });
  if (stuck || stuck_read) {
    exits_ = true;  // only the proof of its death gives that memory back
    return;
  }
  if (!my_->leaving && !leaves_for_good_) return;
  const bool empty = my_->puts.empty() && my_->reads.empty() && my_->operations.empty();
  if (!empty || my_->detaching || session().state() != protocol::Session::State::kAttached) return;
  my_->detaching = true;
  const std::uint64_t cookie = my_->next_cookie++;
  my_->operations[cookie].code = protocol::RequestCode::kDetach;
  session().detach(cookie);
}

// The segment is gone; what it still reads and writes is nobody else's any more. When that is over
// the process attaches anew.
void SimClient::become_another() {
  take_finished_copies();
  advance_reads();
  const auto stuck = [](const auto& item) { return item.second.stuck; };
  if (std::any_of(my_->puts.begin(), my_->puts.end(), stuck)) exits_ = true;
  std::vector<PutId> ended;
  for (const auto& [id, plan] : my_->puts)
    if (plan.copies == 0) ended.push_back(id);
  for (const PutId id : ended) {
    my_->puts.erase(id);
    writing_is_over(id, false);
  }
  for (const auto& [id, plan] : my_->reads)
    if (plan.life.stuck()) exits_ = true;
  if (exits_ || !my_->puts.empty() || !my_->reads.empty()) return;
  if (leaves_for_good_) {
    exits_ = true;
    return;
  }
  world_.note(name() + " is free of the old segment");
  my_ = std::make_unique<Private>();
  my_->nonce = world_.new_nonce();
}

bool SimClient::opened_all() const {
  return std::all_of(my_->rows, my_->rows + world_.options.namespaces(),
                     [](const auto& row) { return row.has_value(); });
}

bool SimClient::idle() const {
  return families_.size() == 1 && families_.back()->process->alive &&
         families_.back()->fork_pipe->writers == 1 && my_ && my_->session &&
         my_->line == Line::kAttached && !socket_->closed_by_server && opened_all() &&
         my_->operations.empty() && my_->puts.empty() && my_->reads.empty() &&
         my_->session->queued() == 0 && my_->session->unanswered() == 0;
}

bool SimClient::gone() const {
  return families_.size() == 1 && !families_.back()->process->alive &&
         families_.back()->fork_pipe->closed();
}

void SimClient::leave() {
  leaves_for_good_ = true;
}

std::string SimClient::what_is_open() const {
  if (!my_) return "dead";
  std::string text = "line " + std::to_string(static_cast<int>(my_->line)) + ", puts " +
                     std::to_string(my_->puts.size()) + ", reads " +
                     std::to_string(my_->reads.size()) + ", operations";
  for (const auto& [cookie, operation] : my_->operations)
    text += " " + std::to_string(static_cast<int>(operation.code));
  if (my_->session)
    text += ", held " + std::to_string(my_->session->held_puts()) + ", unanswered " +
            std::to_string(my_->session->unanswered()) + ", queued " +
            std::to_string(my_->session->queued());
  return text + ", families " + std::to_string(families_.size());
}

KeyId SimClient::key(std::uint32_t ns, std::uint32_t number) const {
  return world_.key(ns, number);
}

std::string SimClient::name() const {
  return "client " + (my_ && my_->session ? std::to_string(my_->session->client().value)
                                          : "process " + std::to_string(number_));
}

void SimClient::broken(Oracle oracle, const std::string& what) {
  world_.verdict.broken(oracle,
                        "client process " + std::to_string(family().process->pid) + ": " + what);
}

}  // namespace orlop::simulation
