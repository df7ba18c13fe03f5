// SPDX-License-Identifier: Apache-2.0
// Sockets of the host: streams of frames that arrive late but in order. What was sent stays in the
// socket when the sender dies.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "memory.h"
#include "process.h"
#include "protocol/attach/frames.h"

namespace orlop::simulation {

struct SimSegment;

// An eventfd: a ring stays until somebody has waited for it. Each takes its own time to arrive.
struct Doorbell {
  std::vector<MonoNs> arrives;
};

// What travels beside a frame.
struct Descriptors {
  std::shared_ptr<ChannelMemory> channel;
  std::shared_ptr<Process> process;  // its pidfd
  std::shared_ptr<ForkPipe> fork_pipe;
  std::shared_ptr<Doorbell> client_doorbell{};
  SimSegment* segment = nullptr;  // both areas
};

struct Packet {
  protocol::Bytes frame;
  Descriptors descriptors;
};

class Stream {
 public:
  void send(Packet packet, MonoNs arrives) {
    latest_ = std::max(latest_, arrives);
    waiting_.emplace_back(latest_, std::move(packet));
  }
  std::optional<Packet> receive(MonoNs now) {
    if (waiting_.empty() || waiting_.front().first > now) return std::nullopt;
    Packet packet = std::move(waiting_.front().second);
    waiting_.pop_front();
    return packet;
  }
  bool empty() const { return waiting_.empty(); }
  bool ready(MonoNs now) const { return !waiting_.empty() && waiting_.front().first <= now; }

 private:
  MonoNs latest_ = 0;
  std::deque<std::pair<MonoNs, Packet>> waiting_;
};

// A client's connection. It lies in the listener's backlog until a server accepts it.
struct Socket {
  explicit Socket(std::shared_ptr<Process> client) : peer(std::move(client)) {}
  std::shared_ptr<Process> peer;
  Stream to_server;
  Stream to_client;
  bool closed_by_client = false;
  bool closed_by_server = false;  // or the server that had accepted it is dead
};

// Held by the keeper, so it outlives every server.
struct Listener {
  std::deque<std::shared_ptr<Socket>> backlog;
};

// Between the keeper and one server.
struct KeeperLink {
  Stream to_keeper;
  Stream to_server;
};

}  // namespace orlop::simulation
