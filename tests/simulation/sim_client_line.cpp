// SPDX-License-Identifier: Apache-2.0
// A client's connection: attach, hang-up, the one critical section of a re-attach.
#include <utility>

#include "base/sometimes.h"
#include "sim_client.h"
#include "sim_keeper.h"
#include "world.h"

namespace orlop::simulation {

using protocol::decode;
using protocol::FrameKind;
using protocol::Session;

void SimClient::drive_line() {
  // The end of the keeper pipe, seen soon.
  if (my_->session && segment().gone && world_.roll(300)) return segment_is_gone();
  switch (my_->line) {
    case Line::kNone:
      if (world_.now < my_->retry_at) return;
      return my_->session ? resume() : attach();
    case Line::kAttaching:
      return hear_attaching();
    case Line::kResuming:
      return hear_resuming();
    case Line::kAttached:
      return hear_attached();
    case Line::kHangingUp:
      // Only the server's close says that it touches the rings no more.
      if (socket_->closed_by_server) line_is_gone(0);
      return;
  }
}

void SimClient::connect() {
  socket_ = std::make_shared<Socket>(family().process);
  world_.listener.backlog.push_back(socket_);
}

void SimClient::attach() {
  connect();
  protocol::AttachFrame frame;
  frame.nonce = my_->nonce;
  frame.sizes = world_.options.channel;
  frame.name = "client" + std::to_string(number_);
  my_->older_abi = world_.fault(world_.options.older_abi);
  if (my_->older_abi) frame.abi += world_.roll(500) ? 1 : -1;
  socket_->to_server.send({encode(frame), {nullptr, nullptr, family().fork_pipe}},
                          world_.frame_arrives());
  my_->line = Line::kAttaching;
}

void SimClient::resume() {
  // Answers that the server before left may be taken first, or not.
  if (session().state() == Session::State::kLost && world_.roll(500)) consume();
  const protocol::ResumeSnapshot snapshot = session().reset();
  forget_lost(snapshot.lost);
  for (const auto& [cookie, operation] : my_->operations)
    if (operation.code != protocol::RequestCode::kPutCommit &&
        operation.code != protocol::RequestCode::kDetach)
      broken(Oracle::kAnswers, "a reset neither answers nor reports a request");
  my_->told_tail = 0;
  connect();
  protocol::ResumeFrame frame;
  frame.nonce = my_->nonce;
  frame.segment = segment().id;
  frame.client = session().client();
  frame.ring_generation = snapshot.ring_generation;
  frame.held = snapshot.held;
  socket_->to_server.send({encode(frame), {nullptr, nullptr, family().fork_pipe}},
                          world_.frame_arrives());
  my_->line = Line::kResuming;
}

void SimClient::forget_lost(const std::vector<protocol::Lost>& all) {
  for (const protocol::Lost& lost : all) {
    const auto found = my_->operations.find(lost.cookie);
    if (found == my_->operations.end() || found->second.code != lost.code)
      return broken(Oracle::kAnswers, "a request was reported lost that nobody waits for");
    if (found->second.removal != 0)
      segment().removals.closed(found->second.removal, false, segment().slots.now());
    if (found->second.code == protocol::RequestCode::kDrain)
      segment().drains.lost(found->second.drain);
    my_->operations.erase(found);
  }
  for (const std::uint64_t removal : my_->abandoned_removals)
    segment().removals.closed(removal, false, segment().slots.now());
  my_->abandoned_removals.clear();
}

// Every request is answered: lost. Plans live on, on memory that nobody gives out again.
void SimClient::segment_is_gone() {
  world_.note(name() + " learns that its segment is gone");
  SOMETIMES(!my_->reads.empty(), "sim: a read plan outlived its segment");
  SOMETIMES(!my_->puts.empty(), "sim: a put outlived its segment");
  forget_lost(session().give_up());
  if (!my_->operations.empty())
    broken(Oracle::kAnswers, "the end of the segment leaves a request without an answer");
  if (socket_) socket_->closed_by_client = true;
  socket_.reset();
  my_->line = Line::kNone;
  my_->over = true;
}

void SimClient::line_is_gone(MonoNs retry_after) {
  socket_.reset();
  my_->line = Line::kNone;
  my_->retry_at = world_.now + retry_after;
  if (my_->session) session().lost();
}

void SimClient::hear_attaching() {
  std::optional<Packet> packet = socket_->to_client.receive(world_.now);
  if (!packet) {
    if (socket_->closed_by_server && socket_->to_client.empty()) line_is_gone(kNsPerMs);
    return;
  }
  if (protocol::frame_kind(packet->frame).value() == FrameKind::kWelcome) return welcomed(*packet);
  if (my_->older_abi) {
    SOMETIMES(true, "sim: a client of another version is refused");
    const auto refusal = decode<protocol::RefusalFrame>(packet->frame).value();
    // Or its frame came too late to be read at all.
    if (refusal.code != ErrorCode::kAbiMismatch && refusal.code != ErrorCode::kDeadline)
      broken(Oracle::kAttach, "another version is refused for another reason: " + refusal.text);
  }
  socket_->closed_by_client = true;
  line_is_gone(5 * kNsPerMs);
}

void SimClient::welcomed(const Packet& packet) {
  const auto frame = decode<protocol::WelcomeFrame>(packet.frame).value();
  if (my_->older_abi) broken(Oracle::kAttach, "a client of another version was welcomed");
  if (!packet.descriptors.segment->gone && !world_.keeper->holds(frame.client))
    broken(Oracle::kAttach, "welcomed as client " + std::to_string(frame.client.value) +
                                " which the keeper does not hold");
  const auto area = segment::ControlArea::open(packet.descriptors.segment->memory.control_span());
  if (!area) {  // damaged meanwhile
    socket_->closed_by_client = true;
    return line_is_gone(5 * kNsPerMs);
  }
  family().segment = packet.descriptors.segment;
  my_->memory = packet.descriptors.channel;
  my_->doorbell = packet.descriptors.client_doorbell;
  my_->channel = segment::ChannelView::open(my_->memory->span(), my_->memory->geometry).value();
  my_->area = *area;
  my_->chunks.emplace(my_->channel.geometry().ledger_chunks);
  // Two threads that pin; any may release.
  my_->threads.assign(2, segment::ThreadLedger(my_->channel));
  my_->session = std::make_unique<Session>(my_->area, my_->channel, frame.client);
  my_->line = Line::kAttached;
  world_.note("client " + std::to_string(frame.client.value) + " attached");
}

void SimClient::hear_resuming() {
  std::optional<Packet> packet = socket_->to_client.receive(world_.now);
  if (!packet) {
    if (socket_->closed_by_server && socket_->to_client.empty()) line_is_gone(kNsPerMs);
    return;
  }
  if (protocol::frame_kind(packet->frame).value() == FrameKind::kResumed) {
    session().resumed();
    my_->line = Line::kAttached;
    SOMETIMES(session().kept_commits() > 0, "sim: resumed with kept commits");
    SOMETIMES(!my_->reads.empty(), "sim: a read plan outlived the server");
    return;
  }
  const auto refusal = decode<protocol::RefusalFrame>(packet->frame).value();
  // The detach was served, but its answer went with the server.
  if (refusal.code == ErrorCode::kClosed && my_->detaching) return detached();
  if (refusal.code == ErrorCode::kClosed && segment().gone) return segment_is_gone();
  if (refusal.code == ErrorCode::kClosed)
    broken(Oracle::kAttach, "resume refused though the segment lives: " + refusal.text);
  line_is_gone(5 * kNsPerMs);
}

void SimClient::detached() {
  world_.note(name() + " detached");
  if (leaves_for_good_) {
    exits_ = true;
    return;
  }
  // The same process comes back as another instance.
  if (socket_) socket_->closed_by_client = true;
  socket_.reset();
  my_ = std::make_unique<Private>();
  my_->nonce = world_.new_nonce();
  my_->retry_at = world_.now + world_.rng.uniform(10 * kNsPerMs);
}

void SimClient::hear_attached() {
  while (socket_->to_client.receive(world_.now)) {
  }
  if (socket_->closed_by_server && socket_->to_client.empty()) line_is_gone(0);
}

}  // namespace orlop::simulation
