// SPDX-License-Identifier: Apache-2.0
// Life and death of the server's clients.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "platform/fork_guard.h"
#include "platform/pause_point.h"
#include "runtime/server_loop.h"

namespace orlop::runtime {

using protocol::ConnectionId;

Result<void> ServerLoop::watch_client(ServedClient& client) {
  const auto doorbell = epoll_.add(client.files.node_doorbell.fd(), EPOLLIN | EPOLLET,
                                   tag(Watch::kDoorbell, client.id.value));
  if (!doorbell) return doorbell;
  return epoll_.add(client.files.process.fd(), EPOLLIN, tag(Watch::kProcess, client.id.value));
}

void ServerLoop::process_ended(ServedClient& client) {
  (void)epoll_.remove(client.files.process.fd());
  if (client.dead) return;
  if (client.connection) {
    const ConnectionId connection = client.connection;
    execute(attach_->hung_up(connection));
    close_connection(connection);
    if (client.dead) return;  // unproved: its hang-up was its death
  }
  client.stop_serving();
  client.dead = true;
  const auto ended = fork_pipe_ended(client.files.fork_pipe.get());
  bool open = ended.has_value() && !*ended;
  if (open) {
    // Only its end is of interest, and that always comes (EPOLLHUP).
    const auto watched =
        epoll_.add(client.files.fork_pipe.get(), 0, tag(Watch::kForkPipe, client.id.value));
    if (!watched)
      LOG_ERROR("fork_pipe_not_watched", {"client", client.id}, {"error", watched.error().message});
  }
  LOG_INFO("client_died", {"client", client.id}, {"pid", client.pid}, {"name", client.name},
           {"held_by_fork", open});
  PAUSE_POINT(kServerReclaiming);
  machine_->step(protocol::event::ClientDied{client.id, open}, now_, effects_);
  settle();
}

// Clients whose death nobody can prove and who have not come back after a restart of the server.
void ServerLoop::end_unproved() {
  unproved_deadline_ = kNever;
  for (const auto& client : clients_) {
    if (client->unproved && !client->connection && !client->dead) process_ended(*client);
  }
}

void ServerLoop::fork_pipe_ended_of(ServedClient& client) {
  const auto ended = fork_pipe_ended(client.files.fork_pipe.get());
  if (ended.has_value() && !*ended) return;
  (void)epoll_.remove(client.files.fork_pipe.get());
  machine_->step(protocol::event::ForkPipeClosed{client.id}, now_, effects_);
  settle();
}

void ServerLoop::expel(ServedClient& client, Error why) {
  LOG_WARN("client_closed", {"client", client.id}, {"pid", client.pid}, {"name", client.name},
           {"reason", why.message});
  client.stop_serving();
  execute(attach_->expel(client.id, why));
}

// Nothing of the client is left in the machine. The keeper holds duplicates of its descriptors, so
// they must leave epoll before they are closed here.
void ServerLoop::reclaim(ClientId id) {
  const auto found = std::find_if(clients_.begin(), clients_.end(),
                                  [&](const auto& client) { return client->id == id; });
  CHECK(found != clients_.end(), "reclaimed once");
  ServedClient& client = **found;
  client.stop_serving();
  std::erase(woken_, &client);
  (void)epoll_.remove(client.files.node_doorbell.fd());
  (void)epoll_.remove(client.files.process.fd());
  (void)epoll_.remove(client.files.fork_pipe.get());
  const ConnectionId connection = client.connection;
  PAUSE_POINT(kServerReclaimed);
  attach_->reclaimed(id);
  if (connection) close_connection(connection);
  LOG_INFO("client_reclaimed", {"client", id}, {"name", client.name});
  clients_.erase(found);
}

}  // namespace orlop::runtime
