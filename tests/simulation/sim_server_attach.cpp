// SPDX-License-Identifier: Apache-2.0
// The server's sockets, and what the attach machine wants done.
#include <algorithm>
#include <utility>

#include "base/sometimes.h"
#include "sim_keeper.h"
#include "sim_server.h"
#include "world.h"

namespace orlop::simulation {

namespace effect = protocol::attach_effect;
namespace event = protocol::event;
using protocol::ConnectionId;

void SimServer::accept() {
  while (!world_.listener.backlog.empty()) {
    const std::shared_ptr<Socket> socket = world_.listener.backlog.front();
    world_.listener.backlog.pop_front();
    accepted_.push_back(socket);
    const ConnectionId connection{my_->next_connection++};
    my_->sockets.emplace(connection, socket);
    apply(my_->attach->connected(connection, {socket->peer->pid, std::nullopt}, world_.now));
  }
}

void SimServer::read_sockets() {
  std::vector<ConnectionId> open;
  for (const auto& [connection, socket] : my_->sockets) open.push_back(connection);
  for (const ConnectionId connection : open) {
    const auto found = my_->sockets.find(connection);
    if (found == my_->sockets.end()) continue;
    const std::shared_ptr<Socket> socket = found->second;
    if (std::optional<Packet> packet = socket->to_server.receive(world_.now)) {
      const unsigned descriptors = packet->descriptors.fork_pipe ? 1 : 0;
      my_->fork_pipes[connection] = {nullptr, socket->peer, packet->descriptors.fork_pipe};
      apply(my_->attach->frame(connection, packet->frame, descriptors, world_.now));
    } else if (socket->closed_by_client && socket->to_server.empty()) {
      apply(my_->attach->hung_up(connection));
      close_socket(connection);
    }
  }
}

void SimServer::lose_a_socket() {
  if (my_->clients.empty()) return;
  auto chosen = my_->clients.begin();
  std::advance(chosen, static_cast<std::ptrdiff_t>(world_.rng.uniform(my_->clients.size())));
  world_.note("server expels client " + std::to_string(chosen->first.value));
  apply(my_->attach->expel(chosen->first, {ErrorCode::kSystem, "the socket is lost"}));
}

void SimServer::close_socket(ConnectionId connection) {
  const auto found = my_->sockets.find(connection);
  if (found == my_->sockets.end()) return;
  found->second->closed_by_server = true;
  std::erase(accepted_, found->second);
  my_->sockets.erase(found);
  my_->fork_pipes.erase(connection);
}

void SimServer::send_to_client(ConnectionId connection, Packet packet) {
  const auto found = my_->sockets.find(connection);
  if (found != my_->sockets.end())
    found->second->to_client.send(std::move(packet), world_.frame_arrives());
}

void SimServer::apply(protocol::AttachEffects effects) {
  for (const protocol::AttachEffect& wanted : effects)
    std::visit([this](const auto& one) { apply_one(one); }, wanted);
}

void SimServer::apply_one(const effect::CreateAndHold& wanted) {
  Descriptors made = my_->fork_pipes.at(wanted.connection);
  made.channel = std::make_shared<ChannelMemory>(wanted.frame.sizes);
  made.client_doorbell = std::make_shared<Doorbell>();
  my_->asked[wanted.frame.attach] = {wanted.connection, made};
  send_to_keeper({encode(wanted.frame), made});
}

void SimServer::apply_one(const effect::AddClient& wanted) {
  const auto asked = std::find_if(my_->asked.begin(), my_->asked.end(), [&](const auto& item) {
    return item.second.connection == wanted.connection;
  });
  CHECK(asked != my_->asked.end());
  const Descriptors& made = asked->second.made;
  ClientEnd& end = my_->clients[wanted.client];
  end.held = made;
  end.connection = wanted.connection;
  end.channel = segment::ChannelView::format(made.channel->span(), made.channel->geometry,
                                             made.channel->sizes, wanted.client);
  end.rings.emplace(end.channel, 0);
  feed(event::ClientAttached{wanted.client, end.channel, wanted.name});
}

void SimServer::apply_one(const effect::Welcome& wanted) {
  const ClientEnd& end = my_->clients.at(wanted.client);
  protocol::WelcomeFrame frame;
  frame.segment = my_->hello->segment;
  frame.incarnation = my_->hello->incarnation;
  frame.client = wanted.client;
  frame.sizes = end.held.channel->sizes;
  send_to_client(wanted.connection, {encode(frame),
                                     {end.held.channel, nullptr, nullptr, end.held.client_doorbell,
                                      &world_.segment()}});
}

void SimServer::apply_one(const effect::Resume& wanted) {
  const ClientId client = wanted.frame.client;
  ClientEnd& end = my_->clients.at(client);
  end.connection = wanted.connection;
  end.rings.emplace(end.channel, wanted.frame.ring_generation);
  world_.note("server resumes client " + std::to_string(client.value) + ", " +
              std::to_string(wanted.frame.held.size()) + " puts held");
  feed(event::ClientResumed{client, wanted.frame.held});
  send_to_client(wanted.connection, {encode(protocol::ResumedFrame{my_->hello->incarnation}), {}});
}

void SimServer::apply_one(const effect::ClientLost& wanted) {
  ClientEnd& end = my_->clients.at(wanted.client);
  end.rings.reset();
  end.connection = {};
  feed(event::ClientLost{wanted.client});
}

void SimServer::apply_one(const effect::Forget& wanted) {
  SOMETIMES(true, "sim: a client attached again without its channel");
  ClientEnd& end = my_->clients.at(wanted.client);
  end.death_told = end.fork_close_told = true;
  feed(event::ClientDied{wanted.client, false});
}

void SimServer::apply_one(const effect::Refuse& wanted) {
  world_.note("server refuses: " + wanted.frame.text);
  send_to_client(wanted.connection, {encode(wanted.frame), {}});
  close_socket(wanted.connection);
}

void SimServer::apply_one(const effect::Close& wanted) {
  close_socket(wanted.connection);
}

void SimServer::apply_one(const effect::DropHeld& wanted) {
  const ChannelMemory& memory = *my_->held.channel;
  segment::ChannelView::over(memory.span(), memory.geometry).mark_reclaimed(wanted.client);
  send_to_keeper({encode(protocol::DropFrame{wanted.client}), {}});
}

}  // namespace orlop::simulation
