// SPDX-License-Identifier: Apache-2.0
// Contract: the server's attach machine under any order of connections, packets, hang-ups, answers
// of the keeper and time.
//   * A client is welcomed once, after the keeper holds its descriptors, on a connection that
//   lives.
//   * A client has at most one connection, a connection at most one client; losing it is told once.
//   * Nothing is said to a connection that is over; a refusal ends it.
//   * Nobody resumes with another nonce or from another process.
//   * At most kMaxHandshakes wait, none longer than kHandshakeLimit; at most kMaxClients are known.
#include "protocol/attach/attach_machine.h"

#include <map>
#include <set>

#include "frame_samples.h"
#include "fuzz_target.h"
#include "input.h"

namespace orlop::fuzz {
namespace {

using namespace protocol;
namespace fx = attach_effect;

constexpr SegmentId kSegment{77};

class Model {
 public:
  void run(Input& input) {
    for (unsigned n = 0; n < 600 && !input.empty(); ++n) {
      act(input);
      CHECK(machine_.attached() == attached());
      CHECK(machine_.attached() <= machine_.known());
      CHECK(machine_.known() == clients_.size());
      CHECK(machine_.known() + holds_.size() <= kMaxClients + kMaxHandshakes);
      CHECK(machine_.handshakes() <= kMaxHandshakes);
    }
    now_ += kHandshakeLimit + 1;
    carry_out(machine_.tick(now_));
    CHECK(machine_.handshakes() == 0 && machine_.next_deadline() == kNever);
  }

 private:
  struct Connection {
    std::uint32_t pid = 0;
    bool asked = false;  // a frame came
    MonoNs since = 0;
    ClientId client;
  };
  struct Client {
    std::uint64_t nonce = 0;
    std::uint32_t pid = 0;
    bool forgotten = false;
    ConnectionId connection;
  };
  struct Hold {
    ConnectionId connection;
    HoldFrame frame;
  };

  std::size_t attached() const {
    std::size_t n = 0;
    for (const auto& [id, client] : clients_) n += client.connection ? 1 : 0;
    return n;
  }
  template <class Map>
  auto pick(Input& input, Map& map) {
    auto at = map.begin();
    std::advance(at, map.empty() ? 0 : input.take<std::uint8_t>() % map.size());
    return at;
  }

  void act(Input& input) {
    switch (input.below(9)) {
      case 0:
        connect(input);
        break;
      case 1:
      case 2:
        if (!live_.empty()) send(input, pick(input, live_)->first);
        break;
      case 3:
        if (!holds_.empty()) answer_hold(input);
        break;
      case 4:
        if (!holds_.empty()) {
          const auto hold = pick(input, holds_);
          const std::uint64_t number = hold->first;
          holds_.erase(hold);
          carry_out(machine_.hold_failed(number, {ErrorCode::kNoMemory, "no memory"}));
        }
        break;
      case 5:
        if (!live_.empty()) {
          const ConnectionId id = pick(input, live_)->first;
          const auto effects = machine_.hung_up(id);
          carry_out(effects);
          over(id);
        }
        break;
      case 6:
        if (!clients_.empty())
          carry_out(machine_.expel(pick(input, clients_)->first, {ErrorCode::kCorrupt, "ring"}));
        break;
      case 7:
        reclaim(input);
        break;
      default:
        now_ += std::uint64_t{input.take<std::uint8_t>()} * 50 * kNsPerMs;
        carry_out(machine_.tick(now_));
        CHECK(machine_.next_deadline() > now_, "nothing that is due stays");
    }
  }

  void connect(Input& input) {
    const ConnectionId id{++next_connection_};
    AttachMachine::Peer peer{1 + input.below(3), {}};
    if (input.below(16) == 1) peer.refuse = RefusalFrame{ErrorCode::kRefused, "another user"};
    live_[id] = {peer.pid, false, now_, {}};
    carry_out(machine_.connected(id, peer, now_));
  }

  // Mostly frames that could come from a client, with a few nonces and ids; sometimes any bytes.
  void send(Input& input, ConnectionId id) {
    Bytes bytes;
    switch (input.below(4)) {
      case 0: {
        const auto raw = input.short_bytes();
        bytes.assign(raw.begin(), raw.end());
        break;
      }
      case 1: {
        ResumeFrame frame = sample_resume();
        frame.nonce = 1 + input.below(4);
        frame.segment = input.below(8) == 1 ? SegmentId{78} : kSegment;
        frame.client = ClientId{1 + input.below(8)};
        frame.held = {make_put_id(frame.client, 1)};
        bytes = encode(frame);
        break;
      }
      default: {
        AttachFrame frame = sample_attach();
        frame.nonce = 1 + input.below(4);
        bytes = encode(frame);
      }
    }
    if (input.below(16) == 1 && !bytes.empty())
      bytes[input.take<std::uint8_t>() % bytes.size()] ^= input.take<std::byte>();
    const unsigned descriptors = input.below(8) == 1 ? 2 : 1;
    last_sent_ = {id, bytes};
    if (const auto found = live_.find(id); found != live_.end()) found->second.asked = true;
    carry_out(machine_.frame(id, bytes, descriptors, now_));
  }

  void answer_hold(Input& input) {
    const auto hold = pick(input, holds_);
    const std::uint64_t number = hold->first;
    answered_ = hold->second;
    holds_.erase(hold);
    HeldFrame held{number, {}, "the keeper is full"};
    if (input.below(8) != 1) held = {number, ClientId{++next_client_}, {}};
    given_ = held.client;
    const auto effects = machine_.held(held);
    carry_out(effects);
    if (held.client && !clients_.contains(held.client)) {
      CHECK(effects.size() == 1 && std::holds_alternative<fx::DropHeld>(effects[0]),
            "what nobody was told of is dropped");
    }
    given_ = {};
  }

  // Only what has gone is reclaimed: lost, or forgotten on its own word.
  void reclaim(Input& input) {
    if (clients_.empty()) return;
    const auto client = pick(input, clients_);
    if (client->second.connection) return;
    machine_.reclaimed(client->first);
    clients_.erase(client);
  }

  void over(ConnectionId id) {
    const auto found = live_.find(id);
    CHECK(found != live_.end());
    CHECK(!found->second.client, "the loss of its client was told first");
    for (auto& [number, hold] : holds_)
      if (hold.connection == id) hold.connection = {};
    live_.erase(found);
  }

  void carry_out(const AttachEffects& effects) {
    for (const AttachEffect& effect : effects)
      std::visit([this](const auto& e) { apply(e); }, effect);
  }
  void apply(const fx::CreateAndHold& e) {
    CHECK(live_.contains(e.connection) && live_.at(e.connection).asked);
    CHECK(e.frame.pid == live_.at(e.connection).pid, "the kernel says who it is");
    const bool fresh = holds_.emplace(e.frame.attach, Hold{e.connection, e.frame}).second;
    CHECK(fresh, "attaches are numbered");
  }
  void apply(const fx::AddClient& e) {
    CHECK(given_ && e.client == given_ && e.connection == answered_.connection);
    CHECK(live_.contains(e.connection) && !live_.at(e.connection).client);
    live_.at(e.connection).client = e.client;
    const bool fresh = clients_
                           .emplace(e.client, Client{answered_.frame.nonce, answered_.frame.pid,
                                                     false, e.connection})
                           .second;
    CHECK(fresh);
  }
  void apply(const fx::Welcome& e) {
    CHECK(clients_.at(e.client).connection == e.connection);
    CHECK(welcomed_.insert(e.client).second, "a client is welcomed once");
  }
  void apply(const fx::Resume& e) {
    Connection& connection = live_.at(e.connection);
    Client& client = clients_.at(e.frame.client);
    CHECK(!client.connection && !client.forgotten && !connection.client);
    CHECK(client.nonce == e.frame.nonce && client.pid == connection.pid, "nobody else resumes");
    CHECK(e.frame.segment == kSegment && last_sent_.first == e.connection);
    client.connection = e.connection;
    connection.client = e.frame.client;
  }
  void apply(const fx::ClientLost& e) {
    Client& client = clients_.at(e.client);
    CHECK(client.connection.value != 0, "lost once");
    live_.at(client.connection).client = {};
    client.connection = {};
  }
  void apply(const fx::Forget& e) {
    Client& client = clients_.at(e.client);
    CHECK(!client.connection && !client.forgotten);
    client.forgotten = true;
  }
  void apply(const fx::Refuse& e) {
    CHECK(!e.frame.text.empty());
    over(e.connection);
  }
  void apply(const fx::Close& e) { over(e.connection); }
  void apply(const fx::DropHeld& e) { CHECK(e.client == given_ && !answered_.connection); }

  AttachMachine machine_{kSegment, {}};
  MonoNs now_ = 100 * kNsPerSecond;
  std::map<ConnectionId, Connection> live_;
  std::map<ClientId, Client> clients_;
  std::map<std::uint64_t, Hold> holds_;
  std::set<ClientId> welcomed_;
  std::pair<ConnectionId, Bytes> last_sent_;
  Hold answered_;
  ClientId given_;
  std::uint64_t next_connection_ = 0;
  std::uint32_t next_client_ = 0;
};

}  // namespace

void run_one(std::span<const std::byte> bytes) {
  Input input(bytes);
  Model().run(input);
}

std::vector<Seed> make_seeds() {
  const auto connect = [](InputWriter& w, unsigned pid) { w.byte(0).byte(pid).byte(0); };
  const auto attach = [](InputWriter& w, unsigned connection, unsigned nonce) {
    w.byte(1).byte(connection).byte(2).byte(nonce).byte(0).byte(0);
  };
  const auto resume = [](InputWriter& w, unsigned connection, unsigned nonce, unsigned client) {
    w.byte(1).byte(connection).byte(1).byte(nonce).byte(0).byte(client).byte(0).byte(0);
  };
  const auto held = [](InputWriter& w) { w.byte(3).byte(0).byte(0); };
  InputWriter life, again, orphan, late;
  connect(life, 0);
  attach(life, 0, 0);
  held(life);
  life.byte(5).byte(0);
  connect(life, 0);
  resume(life, 0, 0, 0);
  life.byte(6).byte(0);
  life.byte(7).byte(0);

  connect(again, 1);
  attach(again, 0, 1);
  held(again);
  connect(again, 1);
  attach(again, 1, 1);
  held(again);
  attach(again, 0, 2);

  connect(orphan, 0);
  attach(orphan, 0, 0);
  orphan.byte(5).byte(0);
  held(orphan);

  connect(late, 2);
  late.byte(8).byte(120);
  connect(late, 2);
  attach(late, 0, 3);
  late.byte(4).byte(0);
  std::vector<Seed> seeds = {{"attach-lose-resume", life.take()},
                             {"attach-again", again.take()},
                             {"orphaned-hold", orphan.take()},
                             {"late-and-failed", late.take()}};
  for (auto& [name, frame] : sample_frames()) {
    if (frame.size() > 255) continue;
    InputWriter w;
    connect(w, 0);
    w.byte(1).byte(0).byte(0).short_bytes(frame).byte(0).byte(0);
    seeds.push_back({"frame-" + name, w.take()});
  }
  return seeds;
}

}  // namespace orlop::fuzz
