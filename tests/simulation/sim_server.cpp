// SPDX-License-Identifier: Apache-2.0
#include "sim_server.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/sometimes.h"
#include "value_bytes.h"
#include "world.h"

namespace orlop::simulation {

using protocol::decode;
using protocol::FrameKind;
using protocol::NodeEffects;
using protocol::NodeMachine;
namespace event = protocol::event;

SimServer::SimServer(World& world, std::shared_ptr<KeeperLink> link)
    : world_(world),
      process_(std::make_shared<Process>()),
      link_(std::move(link)),
      my_(std::make_unique<Private>()) {
  process_->pid = world.new_pid();
}

void SimServer::step() {
  if (!world_.may_run(*process_, world_.options.server_killed, world_.options.server_paused))
    return;
  const bool lived = run_as(*process_, world_, [this] { turn(); }, [this] { my_.reset(); });
  if (!lived) world_.note("server killed");
}

// Every source is looked at in most turns, so that their order varies.
void SimServer::turn() {
  if (sleeps_on()) return;
  const auto most = [this] { return world_.rng.chance(0.7); };
  if (most()) flush_to_keeper();
  if (most()) read_keeper();
  if (!my_->node) return;
  if (most()) accept();
  if (most()) read_sockets();
  if (most()) apply(my_->attach->tick(world_.now));
  if (most()) poll_deaths();
  if (most()) poll_rings();
  if (most()) finish_verifications();
  if (my_->node->next_deadline() <= world_.now) feed(event::Tick{});
  check_deadlines();
  if (most()) run_background();
  if (world_.roll(20)) my_->node->read_clients(world_.now);  // somebody asks for a status
  if (world_.fault(world_.options.socket_lost)) lose_a_socket();
  fall_asleep();
}

// No answer takes longer than what was allowed for it, in virtual time.
void SimServer::check_deadlines() {
  for (const auto& [client, end] : my_->clients) {
    const auto late = end.rings ? end.rings->overdue(world_.now) : std::nullopt;
    if (late)
      world_.verdict.broken(Oracle::kDeadline, "the node keeps request code " +
                                                   std::to_string(static_cast<int>(*late)) +
                                                   " of client " + std::to_string(client.value) +
                                                   " beyond its time");
  }
}

// ---- sleep, as the product's loop does ----------------------------------------------------------

bool SimServer::any_ring_waits() const {
  return std::any_of(my_->clients.begin(), my_->clients.end(), [](const auto& item) {
    return item.second.rings && item.second.rings->request_waits();
  });
}

void SimServer::fall_asleep() {
  if (my_->node->wants_background() || !my_->to_keeper.empty() || world_.roll(500)) return;
  auto& sleeping = world_.segment().area().header().node_sleeping;
  sleeping.store(1, std::memory_order_relaxed);
  segment::full_fence();
  my_->asleep = !any_ring_waits();
  if (!my_->asleep) sleeping.store(0, std::memory_order_relaxed);
  SOMETIMES(my_->asleep, "sim: the node sleeps");
}

// Everything that a poll would report, but a doorbell that nobody rang.
bool SimServer::anything_happened() {
  const bool rung = world_.take_rings(world_.node_doorbell);
  SOMETIMES(rung, "sim: a doorbell wakes the node");
  if (rung || link_->to_server.ready(world_.now) || !world_.listener.backlog.empty() ||
      my_->node->next_deadline() <= world_.now || my_->attach->next_deadline() <= world_.now)
    return true;
  for (const auto& [connection, socket] : my_->sockets)
    if (socket->to_server.ready(world_.now) ||
        (socket->closed_by_client && socket->to_server.empty()))
      return true;
  for (const auto& [client, end] : my_->clients)
    if (!end.held.process->alive &&
        (!end.death_told || (end.held.fork_pipe->closed() && !end.fork_close_told)))
      return true;
  return std::any_of(my_->verify.begin(), my_->verify.end(),
                     [this](const VerifyJob& job) { return job.done_at <= world_.now; });
}

bool SimServer::sleeps_on() {
  if (!my_->asleep) return false;
  if (!anything_happened()) return true;
  my_->asleep = false;
  world_.segment().area().header().node_sleeping.store(0, std::memory_order_relaxed);
  return false;
}

void SimServer::wake_answered(const std::vector<ClientId>& answered) {
  if (answered.empty()) return;
  segment::full_fence();  // partner: the client's, between its sleep flag and its second look
  for (const ClientId client : answered) {
    const auto end = my_->clients.find(client);
    if (end == my_->clients.end()) continue;
    if (end->second.channel.header().client_sleeping.load(std::memory_order_relaxed) != 0)
      world_.ring(*end->second.held.client_doorbell);
  }
}

NodeMachine* SimServer::idle_node() {
  return my_ && my_->node && !process_->running ? my_->node.get() : nullptr;
}

bool SimServer::idle() const {
  return my_ && my_->node && my_->to_keeper.empty() && my_->verify.empty() && my_->asked.empty() &&
         !my_->node->wants_background();
}

// ---- keeper -------------------------------------------------------------------------------------

void SimServer::send_to_keeper(Packet packet) {
  my_->to_keeper.push_back(std::move(packet));
}

void SimServer::flush_to_keeper() {
  for (; !my_->to_keeper.empty(); my_->to_keeper.pop_front())
    link_->to_keeper.send(std::move(my_->to_keeper.front()), world_.frame_arrives());
}

void SimServer::read_keeper() {
  if (world_.fault(world_.options.keeper_slow)) return;
  while (std::optional<Packet> packet = link_->to_server.receive(world_.now))
    handle_keeper_frame(*packet);
}

void SimServer::handle_keeper_frame(const Packet& packet) {
  switch (protocol::frame_kind(packet.frame).value()) {
    case FrameKind::kHello:
      my_->hello = decode<protocol::HelloFrame>(packet.frame).value();
      return;
    case FrameKind::kHandOver:
      my_->handed_over.emplace_back(decode<protocol::HandOverFrame>(packet.frame).value(),
                                    packet.descriptors);
      return;
    case FrameKind::kHandOverEnd:
      return recover();
    case FrameKind::kHeld: {
      const auto held = decode<protocol::HeldFrame>(packet.frame).value();
      my_->held = my_->asked.at(held.attach).made;
      apply(my_->attach->held(held));
      my_->asked.erase(held.attach);
      return;
    }
    default:
      world_.verdict.broken(Oracle::kAttach, "the keeper sent a frame that a server does not know");
  }
}

void SimServer::recover() {
  CHECK(my_->handed_over.size() == my_->hello->channels);
  const segment::Geometry& geometry = world_.segment().memory.geometry;
  std::vector<NodeMachine::HandedOver> channels;
  for (const auto& [frame, held] : my_->handed_over) {
    const auto view = segment::ChannelView::over(held.channel->span(), held.channel->geometry);
    channels.push_back({frame.client, view, frame.name});
  }
  protocol::RecoveryReport report;
  const Incarnation incarnation = my_->hello->incarnation;
  if (my_->hello->cold) {
    const auto area = segment::ControlArea::format(world_.segment().memory.control_span(), geometry,
                                                   my_->hello->segment);
    world_.segment().slots.area_formatted();
    my_->node = NodeMachine::cold(area, world_.options.node, incarnation, world_.now).value();
  } else {
    recover_warm(std::move(channels), report);
    if (!my_->node) return;
  }
  adopt_clients(report.reclaimed);
  serving_ = true;
  send_to_keeper({protocol::encode_bare(FrameKind::kServing), {}});
  world_.note("server serves");
}

void SimServer::adopt_clients(const std::vector<ClientId>& reclaimed) {
  std::vector<protocol::AttachMachine::Known> known;
  for (const auto& [frame, held] : my_->handed_over) {
    if (std::ranges::find(reclaimed, frame.client) != reclaimed.end()) {
      world_.note("server drops client " + std::to_string(frame.client.value) + " again");
      send_to_keeper({encode(protocol::DropFrame{frame.client}), {}});
      continue;
    }
    known.push_back({frame.client, frame.nonce, frame.pid});
    const auto view = segment::ChannelView::over(held.channel->span(), held.channel->geometry);
    my_->clients[frame.client] = ClientEnd{.held = held, .channel = view};
  }
  my_->attach = std::make_unique<protocol::AttachMachine>(my_->hello->segment, known);
}

void SimServer::recover_warm(std::vector<NodeMachine::HandedOver> channels,
                             protocol::RecoveryReport& report) {
  const auto area = segment::ControlArea::open(world_.segment().memory.control_span());
  if (!area) return refuse_segment(area.error());
  if (world_.segment().header_damaged)
    world_.verdict.broken(Oracle::kRestart, "a server starts on a damaged header");
  auto node = NodeMachine::recover(*area, world_.options.node, my_->hello->incarnation,
                                   std::move(channels), world_.now, &report);
  if (!node) {
    world_.verdict.broken(Oracle::kRestart, "recovery refused: " + node.error().message);
    return refuse_segment(node.error());
  }
  my_->node = std::move(*node);
  world_.segment().slots.server_recovered();
  SOMETIMES(report.retiring_restored > 0, "sim: a restart restored a retiring group");
  SOMETIMES(report.slots_doomed > 0, "sim: a restart doomed half a group");
  SOMETIMES(report.prepared_kept > 0, "sim: a restart kept Prepared slots");
}

void SimServer::refuse_segment(const Error& error) {
  if (!world_.segment().header_damaged)
    world_.verdict.broken(Oracle::kRestart, "a sound segment is refused: " + error.message);
  world_.note("server refuses the segment: " + error.message);
  condemns_segment_ = true;
  process_->alive = false;
}

// ---- node machine -------------------------------------------------------------------------------

void SimServer::feed(const protocol::NodeEvent& happened) {
  NodeEffects effects;
  my_->node->step(happened, world_.now, effects);
  if (const auto* commit = std::get_if<event::PutCommit>(&happened)) check_commit(*commit, effects);
  apply(effects);
}

void SimServer::apply(NodeEffects& effects) {
  // Waits in the queue, as for a socket that is full: a kill before it is sent leaves the channel
  // to the next server, which knows by the channel's own word that nobody uses it.
  for (const protocol::ChannelReclaimed& reclaimed : effects.reclaimed)
    send_to_keeper({encode(protocol::DropFrame{reclaimed.client}), {}});
  std::vector<ClientId> answered;
  for (const protocol::NodeAnswer& answer : effects.answers) {
    if ((answer.request.value & kForged) != 0) {
      check_forged(answer);
      continue;
    }
    answered.push_back(answer.client);
    const auto client = my_->clients.find(answer.client);
    if (client == my_->clients.end() || !client->second.rings) continue;
    if (client->second.rings->waits_for(answer)) {
      client->second.rings->answer(answer, effects);
    } else {
      world_.verdict.broken(Oracle::kAnswers, "the node answers a second time, or unasked");
    }
  }
  wake_answered(answered);
  for (const protocol::VerifyValue& wanted : effects.verify)
    my_->verify.push_back({wanted, world_.now + world_.rng.uniform(5 * kNsPerMs)});
  for (const protocol::CloseClient& close : effects.close)
    apply(my_->attach->expel(close.client, {ErrorCode::kInvalidArgument, close.why}));
  for (const protocol::PunchIndexPlace& punch : effects.punch) {
    std::byte* place = world_.segment().memory.control_span().data() +
                       world_.segment().memory.geometry.index_offset[punch.place];
    std::memset(place, 0, world_.segment().memory.geometry.index_place_bytes);
    my_->node->index_place_punched(punch.place);
  }
  for (const protocol::ChannelReclaimed& reclaimed : effects.reclaimed)
    forget_client(reclaimed.client);
}

void SimServer::forget_client(ClientId client) {
  world_.note("server reclaimed client " + std::to_string(client.value));
  const auto end = my_->clients.find(client);
  CHECK(end != my_->clients.end());
  const protocol::ConnectionId connection = end->second.connection;
  my_->clients.erase(end);
  if (connection) close_socket(connection);
  my_->attach->reclaimed(client);
}

// pidfds and fork pipes, as a poll would report them.
void SimServer::poll_deaths() {
  std::vector<ClientId> known;
  for (const auto& [client, end] : my_->clients) known.push_back(client);
  for (const ClientId client : known) {
    ClientEnd& end = my_->clients.at(client);
    if (end.held.process->alive) continue;
    const bool fork_open = !end.held.fork_pipe->closed();
    if (!end.death_told) {
      end.death_told = true;
      end.fork_close_told = !fork_open;
      end.rings.reset();  // the product's driver reads nothing of a dead client either
      SOMETIMES(fork_open, "sim: a forked child outlived its parent");
      feed(event::ClientDied{client, fork_open});
    } else if (!fork_open && !end.fork_close_told) {
      end.fork_close_told = true;
      feed(event::ForkPipeClosed{client});
    }
  }
}

void SimServer::poll_rings() {
  std::vector<ClientId> known;
  for (const auto& [client, end] : my_->clients) known.push_back(client);
  for (const ClientId client : known) {
    for (std::uint64_t left = world_.rng.uniform(4); left > 0; --left) {
      const auto end = my_->clients.find(client);
      if (end == my_->clients.end() || !end->second.rings) break;
      const RingEnd::Taken taken =
          end->second.rings->take(client, world_.now, world_.options.node.max_space_wait);
      if (taken == RingEnd::Taken::kNothing) break;
      if (taken == RingEnd::Taken::kBroken) {
        world_.verdict.broken(Oracle::kAnswers, "a client's ring message is malformed");
        break;
      }
      const protocol::NodeEvent* asked = end->second.rings->request();
      if (asked == nullptr) {
        wake_answered({client});  // a ping
        continue;
      }
      remember(*asked);
      feed(*asked);
      if (world_.fault(world_.options.doubled)) send_again();
    }
  }
}

void SimServer::finish_verifications() {
  for (std::size_t i = 0; i < my_->verify.size(); ++i) {
    if (my_->verify[i].done_at > world_.now) continue;
    const protocol::VerifyValue wanted = my_->verify[i].wanted;
    my_->verify.erase(my_->verify.begin() + static_cast<std::ptrdiff_t>(i));
    const ValueIdentity identity{wanted.key, world_.namespace_of(wanted.namespace_digest)};
    const std::uint64_t sum =
        value_checksum(identity, world_.segment().memory.value(wanted.slot, wanted.value_len));
    feed(event::ValueVerified{wanted.reporter, wanted.slot, wanted.generation,
                              sum == wanted.expected});
    return;
  }
}

void SimServer::run_background() {
  if (!my_->node->wants_background()) return;
  NodeEffects effects;
  my_->node->run_background(world_.now, effects);
  apply(effects);
}

void SimServer::close_sockets() {
  for (const auto& socket : accepted_) socket->closed_by_server = true;
}

}  // namespace orlop::simulation
