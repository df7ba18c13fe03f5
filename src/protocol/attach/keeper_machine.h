// SPDX-License-Identifier: Apache-2.0
// The keeper's bookkeeping: which channels it holds, client ids, hand-over to a new server, and
// what a keeper after it must find. Pure; the driver (src/node/keeper.cpp) owns the descriptors,
// keyed by client id, and carries out effects in order.
//
// Rules (design 10 sections 2, 5): client ids are never reused within a segment; a channel is
// dropped only on the server's word (or when the same instance attaches again and says that it
// never received it); the count of channels is sent first, the end mark last; frames of an old
// server are read until its socket would block, then nothing of it counts.
//
// With a store (the service manager's, docs/protocol/attach.md): the ledger names only what the
// store has. So a client is answered after its descriptors are stored *and* written down, and
// struck from the ledger before they leave the store; a server gets the memory after its own
// pidfd is stored and written down, because a later keeper must be able to prove its death.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "protocol/attach/frames.h"
#include "protocol/attach/keeper_ledger.h"

namespace orlop::protocol {

namespace keeper_effect {
// Give this client's descriptors to the store. Answer: stored(), when the store has them all.
struct Store {
  ClientId client;
};
// The pidfd of the server that was just started. Answer: server_stored().
struct StoreServer {
  std::uint32_t server = 0;
};
struct WriteLedger {};  // ledger()
struct HandOver {};     // begin_server(), then send what it says
struct Answer {         // to the server that asked
  HeldFrame frame;
};
// Close its descriptors, take them out of the store.
struct LetGo {
  ClientId client;
};
struct ForgetServer {  // take its pidfd out of the store
  std::uint32_t server = 0;
};
}  // namespace keeper_effect
using KeeperEffect =
    std::variant<keeper_effect::Store, keeper_effect::StoreServer, keeper_effect::WriteLedger,
                 keeper_effect::HandOver, keeper_effect::Answer, keeper_effect::LetGo,
                 keeper_effect::ForgetServer>;
using KeeperEffects = std::vector<KeeperEffect>;

class KeeperMachine {
 public:
  explicit KeeperMachine(SegmentId segment, bool with_store = false)
      : segment_(segment), with_store_(with_store) {}
  // Goes on with what the keeper before wrote down: the driver holds every client that the ledger
  // names, and the server that it names is dead. The first act is to write that down (ledger()).
  KeeperMachine(const LedgerFrame& ledger, const Adoption& adoption);

  // A server was started (its process, nothing more); it ends in HandOver, now or later.
  KeeperEffects server_started();
  KeeperEffects server_stored(std::uint32_t server);
  // It is dead and its socket was read to the end.
  KeeperEffects server_ended();

  // A server asks to hold a new client's descriptors (already received by the driver). Ends in
  // Answer: its client id is 0 when kMaxClients are held or ids are exhausted; text says why.
  KeeperEffects hold(const HoldFrame& frame);
  KeeperEffects stored(ClientId client);
  // The server reclaimed a channel. Nothing if it was not held.
  KeeperEffects drop(ClientId client);
  // The store does not answer: from now on nothing is stored or written down. The driver makes the
  // ledger void first, so that no later keeper believes it.
  KeeperEffects store_lost();

  // A new server starts: what to tell it, in this order: hello, hand-overs, end mark. The driver
  // fills in what hello says about the machine (sizes, keeper, the server before).
  struct HandOver {
    HelloFrame hello;
    std::vector<HandOverFrame> channels;
  };
  HandOver begin_server(Incarnation incarnation);
  // A server is ready. From the first one on the segment has contents: no start is cold any more.
  // Until then no client is attached (the server accepts only afterwards), so a server that died in
  // its cold start leaves nothing: the driver formats the control area again.
  KeeperEffects serving();
  bool served() const { return served_; }
  std::size_t held() const { return channels_.size(); }
  ClientId last_client() const { return ClientId{next_client_ - 1}; }  // issued; 0: none yet
  bool holds(ClientId client) const { return channels_.contains(client); }

  // What to write down; the driver adds what it knows about the memory.
  LedgerFrame ledger() const;

 private:
  struct Pending {  // asked for, not in the store yet
    HandOverFrame channel;
    std::uint64_t attach = 0;
  };

  SegmentId segment_;
  bool with_store_ = false;
  std::uint32_t next_client_ = 1;
  bool served_ = false;
  std::uint32_t server_ = 0;          // number of the newest one
  std::uint32_t written_server_ = 0;  // in the ledger; 0: none
  bool server_waits_ = false;         // started, not given the memory yet
  std::map<ClientId, HandOverFrame> channels_;
  std::map<ClientId, Pending> pending_;
};

}  // namespace orlop::protocol
