// SPDX-License-Identifier: Apache-2.0
#include "runtime/server_loop.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "platform/clock.h"
#include "platform/pause_point.h"

namespace orlop::runtime {

using protocol::FrameKind;

ServerLoop::ServerLoop(const ServerConfig& config, ServerStart start)
    : config_(config),
      hello_(std::move(start.hello)),
      segment_(std::move(start.segment)),
      listener_(std::move(start.listener)),
      admin_socket_(std::move(start.admin_socket)),
      keeper_(std::move(start.keeper)),
      handed_over_(std::move(start.channels)),
      cpus_(cpu_count()),
      spin_(config.spin_ns ? AdaptiveSpin(*config.spin_ns) : AdaptiveSpin::for_cpus(cpus_)) {}

ServerLoop::~ServerLoop() {
  ports_.close();  // nobody waits for what nobody answers any more
  verifier_.reset();
}

Result<std::unique_ptr<ServerLoop>> ServerLoop::create(const ServerConfig& config,
                                                       ServerStart start) {
  std::unique_ptr<ServerLoop> loop(new ServerLoop(config, std::move(start)));
  auto wake = EventFd::create();
  if (!wake) return std::unexpected<Error>(wake.error());
  loop->wake_ = std::move(*wake);
  auto epoll = EpollLoop::create();
  if (!epoll) return std::unexpected<Error>(epoll.error());
  loop->epoll_ = std::move(*epoll);
  for (auto step :
       {&ServerLoop::start_machine, &ServerLoop::adopt_clients, &ServerLoop::start_watching}) {
    const auto done = (loop.get()->*step)();
    if (!done) return std::unexpected<Error>(done.error());
  }
  return loop;
}

// Over views of the channels that were handed over; the clients themselves come right after.
Result<void> ServerLoop::start_machine() {
  server_started_ = now_ = monotonic_ns();
  std::vector<protocol::NodeMachine::HandedOver> clients;
  for (HandedOverChannel& channel : handed_over_) {
    clients.push_back({channel.frame.client,
                       segment::ChannelView::over(channel.files.mapping.span(), channel.geometry),
                       channel.frame.name});
  }
  PAUSE_POINT(kServerStarting);
  auto machine =
      hello_.cold
          ? protocol::NodeMachine::cold(segment_.area, config_.node, hello_.incarnation, now_)
          : protocol::NodeMachine::recover(segment_.area, config_.node, hello_.incarnation,
                                           std::move(clients), now_, &start_report_.recovery);
  if (!machine) return std::unexpected<Error>(machine.error());
  machine_ = std::move(*machine);
  start_report_.took_ns = monotonic_ns() - server_started_;
  PAUSE_POINT(kServerRecovered);
  return {};
}

Result<void> ServerLoop::adopt_clients() {
  std::vector<protocol::AttachMachine::Known> known;
  const std::vector<ClientId>& reclaimed = start_report_.recovery.reclaimed;
  for (HandedOverChannel& channel : handed_over_) {
    // Its keeper died before it heard that (start_watching() says it again); nobody has it mapped
    // who may use it.
    if (std::ranges::find(reclaimed, channel.frame.client) != reclaimed.end()) continue;
    auto client = std::make_unique<ServedClient>();
    client->id = channel.frame.client;
    client->name = channel.frame.name;
    client->pid = channel.frame.pid;
    client->unproved = channel.frame.pid == 0;
    if (client->unproved) unproved_deadline_ = now_ + kUnprovedReturnLimit;
    client->view = segment::ChannelView::over(channel.files.mapping.span(), channel.geometry);
    client->files = std::move(channel.files);
    known.push_back({client->id, channel.frame.nonce, client->pid});
    const auto watched = watch_client(*client);
    if (!watched) return watched;
    clients_.push_back(std::move(client));
  }
  handed_over_.clear();
  attach_ = std::make_unique<protocol::AttachMachine>(hello_.segment, known);
  verifier_ =
      std::make_unique<ValueVerifier>(segment_.value.span(), segment_.area.geometry(), wake_);
  return {};
}

// Accepting begins here, after the end mark and the recovery.
Result<void> ServerLoop::start_watching() {
  const std::pair<int, Watch> fixed[] = {{wake_.fd(), Watch::kWake},
                                         {listener_.fd(), Watch::kListener},
                                         {keeper_.fd(), Watch::kKeeper}};
  for (const auto& [fd, watch] : fixed) {
    // Level-triggered: a listener whose accept failed for want of descriptors must come again.
    const auto added = epoll_.add(fd, EPOLLIN, tag(watch, 0));
    if (!added) return added;
  }
  listen_again();
  for (const ClientId client : start_report_.recovery.reclaimed)
    tell_keeper(protocol::encode(protocol::DropFrame{client}));
  auto told = keeper_.send(protocol::encode_bare(FrameKind::kServing));
  PAUSE_POINT(kServerServing);
  return told;
}

Result<void> ServerLoop::run() {
  for (;;) {
    bool idle = true;
    const auto round = one_round(idle);
    if (!round) return round;
    if (keeper_lost_) return std::unexpected<Error>(*keeper_lost_);
    if (stop_is_over()) return {};
    if (!idle) continue;
    const auto slept = sleep_or_spin();
    if (!slept) return slept;
  }
}

// Rings first, then what is due, then events if they have not been looked at for long.
Result<void> ServerLoop::one_round(bool& idle) {
  now_ = monotonic_ns();
  const bool served = serve_rings();
  if (served) {
    const MonoNs end = monotonic_ns();
    const MonoNs each = (end - now_) / served_messages_;
    counters_.steps.record(each, served_messages_);
    now_ = end;
  }
  run_due(!served);
  after_round();
  idle = !served && !machine_->wants_background();
  if (now_ - events_looked_at_ < kEventsAtLeastEvery) return {};
  return wait_events(0);
}

// idle: nobody waits for an answer, so background work costs nobody anything.
void ServerLoop::run_due(bool idle) {
  if (now_ >= machine_->next_deadline()) {
    machine_->step(protocol::event::Tick{}, now_, effects_);
    settle();
  }
  if (machine_->wants_background() && (idle || now_ - events_looked_at_ >= kEventsAtLeastEvery)) {
    PAUSE_POINT(kServerBackground);
    machine_->run_background(now_, effects_);
    settle();
    now_ = monotonic_ns();
  }
  wake_answered();
}

// Lists of clients change only here, when nobody walks them.
void ServerLoop::after_round() {
  while (!expelled_.empty() || !reclaimed_.empty()) {
    for (const auto& [id, why] : std::exchange(expelled_, {})) {
      if (ServedClient* client = find(id)) expel(*client, why);
    }
    for (const ClientId id : std::exchange(reclaimed_, {})) reclaim(id);
  }
}

Result<void> ServerLoop::sleep_or_spin() {
  const bool may_spin = config_.spin_ns || !crowded();
  if (const MonoNs budget = may_spin ? spin_.budget_ns() : 0; budget != 0) {
    const MonoNs until = monotonic_ns() + budget;
    do {
      if (any_ring_waits()) {
        spin_.hit();
        ++counters_.spins_hit;
        return {};
      }
      __builtin_ia32_pause();
    } while (monotonic_ns() < until);
  }
  auto& sleeping = segment_.area.header().node_sleeping;
  sleeping.store(1, std::memory_order_relaxed);
  segment::full_fence();  // partner: a client's fence between its tail and reading the flag
  Result<void> waited;
  PAUSE_POINT(kServerSleeping);
  if (!any_ring_waits()) {
    const MonoNs before = monotonic_ns();
    ++counters_.sleeps;
    waited = wait_events(time_left(next_deadline(), before));
    if (may_spin) spin_.missed(now_ - before);
  }
  sleeping.store(0, std::memory_order_relaxed);
  return waited;
}

Result<void> ServerLoop::wait_events(MonoNs timeout) {
  const auto events = epoll_.wait(timeout);
  now_ = events_looked_at_ = monotonic_ns();
  if (!events) return std::unexpected<Error>(events.error());
  for (const EpollEvent& event : *events) {
    const auto done = dispatch(event);
    if (!done) return done;
  }
  if (now_ >= attach_->next_deadline()) execute(attach_->tick(now_));
  if (now_ >= unproved_deadline_) end_unproved();
  if (now_ >= listen_again_) listen_again();
  after_round();
  if (now_ - suppressed_reported_ >= kNsPerSecond) {
    suppressed_reported_ = now_;
    log_report_suppressed();
  }
  return {};
}

MonoNs ServerLoop::next_deadline() const {
  MonoNs next = std::min(machine_->next_deadline(), attach_->next_deadline());
  return std::min({next, stop_deadline_, unproved_deadline_, listen_again_});
}

// Every answer is out, or the time for it is over.
bool ServerLoop::stop_is_over() const {
  if (stop_deadline_ == kNever) return false;
  if (now_ >= stop_deadline_) return true;
  for (const auto& client : clients_) {
    if (client->served && (!client->requests.empty() || !client->open.empty())) return false;
  }
  return true;
}

// Somebody on another thread wants something or has something.
void ServerLoop::serve_threads() {
  wake_.drain();
  verified_.clear();
  verifier_->take(verified_);
  for (const auto& answer : verified_) {
    machine_->step(answer, now_, effects_);
    settle();
  }
  wake_answered();
  if (const std::uint64_t ticket = ports_.health.wanted()) {
    const NodeHealth health{.stopping = stop_deadline_ != kNever,
                            .draining = machine_->gauges(now_).draining};
    ports_.health.deliver(ticket, std::make_shared<NodeHealth>(health));
  }
  if (const std::uint64_t ticket = ports_.snapshots.wanted()) {
    machine_->read_clients(now_);
    ports_.snapshots.deliver(ticket, snapshot());
  }
  ports_.inspections.serve([this](const protocol::InspectQuestion& question) {
    return machine_->inspect(question, now_);
  });
}

std::shared_ptr<NodeSnapshot> ServerLoop::snapshot() const {
  auto out = std::make_shared<NodeSnapshot>();
  out->segment = hello_.segment;
  out->incarnation = hello_.incarnation;
  out->cold = hello_.cold;
  out->stopping = stop_deadline_ != kNever;
  out->restarts = hello_.restarts;
  out->keeper_pid = hello_.keeper_pid;
  out->server_pid = static_cast<std::uint32_t>(::getpid());
  out->last_end = hello_.last_end;
  out->upgrade = upgrade_;
  out->taken = now_;
  out->keeper_started = hello_.keeper_started;
  out->server_started = server_started_;
  out->recovery_ns = start_report_.took_ns;
  out->recovery = start_report_.recovery;
  out->value_bytes = segment_.area.geometry().value_bytes();
  out->slab_bytes = segment_.area.geometry().slab_bytes;
  out->control_resident_bytes = segment_.control_file.resident_bytes().value_or(0);
  out->value_resident_bytes = segment_.value_file.resident_bytes().value_or(0);
  out->touched_bytes = hello_.touched_bytes;
  out->huge_bytes = hello_.huge_bytes;
  out->placement = protocol::parse_placement(hello_.placement);
  out->attached = attach_->attached();
  out->known = attach_->known();
  out->handshakes = attach_->handshakes();
  out->counters = machine_->counters();
  out->gauges = machine_->gauges(now_);
  for (protocol::ClientGauges& gauges : machine_->clients(now_)) {
    ClientInfo info;
    for (const auto& client : clients_) {
      if (client->id != gauges.client) continue;
      info.pid = client->pid;
      info.connected = client->served;
      info.channel_bytes = client->files.memory.resident_bytes().value_or(0);
    }
    info.gauges = std::move(gauges);
    out->clients.push_back(std::move(info));
  }
  for (const auto& ns : machine_->namespaces()) {
    out->namespaces.push_back({ns.row, ns.index, ns.value_len, std::string(ns.text), ns.slots,
                               ns.readable_bytes, ns.traffic});
  }
  out->traffic = machine_->traffic();
  out->loop = counters_;
  return out;
}

}  // namespace orlop::runtime
