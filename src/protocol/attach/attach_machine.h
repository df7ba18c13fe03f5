// SPDX-License-Identifier: Apache-2.0
// The server's half of attach and resume, per connection: the client gets its descriptors only after
// the keeper has acknowledged that it holds channel, doorbells, pidfd and fork pipe. Pure.
//
//   state \ event | Attach frame      | keeper Held(id)          | keeper Held(0)   | hang-up
//   --------------+-------------------+--------------------------+------------------+-----------------
//   Connected     | -> Holding, Hold  | -                        | -                | gone
//   Holding       | refuse (protocol) | -> Attached, Welcome     | refuse, close    | -> Orphaned
//   Orphaned      | -                 | attach, then client lost | gone             | -
//   Attached      | refuse (protocol) | -                        | -                | client lost
//
// Orphaned: the client hung up while the keeper was asked; once held, the client is attached all the
// same, so that its pidfd (if it lives: a later resume or its death) decides.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "orlop/error.h"
#include "protocol/attach/frames.h"

namespace orlop::protocol {

using ConnectionId = Id<struct ConnectionIdTag, std::uint64_t>;  // driver's number of a socket

// What the driver has to do, in order.
namespace attach_effect {
struct CreateAndHold { ConnectionId connection; HoldFrame frame; };  // create channel + doorbells, send kHold with fds
struct Welcome { ConnectionId connection; ClientId client; };        // format header's client id done; send fds
struct AddClient { ConnectionId connection; ClientId client; std::string name; };  // NodeMachine ClientAttached
struct Resume { ConnectionId connection; ResumeFrame frame; };       // NodeMachine ClientResumed, then kResumed
struct ClientLost { ClientId client; };                              // stop touching the channel first
struct Refuse { ConnectionId connection; RefusalFrame frame; };      // send, close
struct Close { ConnectionId connection; };
struct DropHeld { ClientId client; };                                // tell the keeper
}  // namespace attach_effect
using AttachEffect =
    std::variant<attach_effect::CreateAndHold, attach_effect::Welcome, attach_effect::AddClient,
                 attach_effect::Resume, attach_effect::ClientLost, attach_effect::Refuse,
                 attach_effect::Close, attach_effect::DropHeld>;

class AttachMachine {
 public:
  // known: clients handed over by the keeper (client id, nonce).
  struct Known { ClientId client; std::uint64_t nonce; };
  AttachMachine(SegmentId segment, std::vector<Known> known);

  std::vector<AttachEffect> connected(ConnectionId connection);
  // pid: of the peer, by the kernel. The driver has a pidfd for it, else it refuses before this.
  std::vector<AttachEffect> frame(ConnectionId connection, std::span<const std::byte> bytes,
                                  std::uint32_t pid);
  std::vector<AttachEffect> held(const HeldFrame& frame);
  std::vector<AttachEffect> hung_up(ConnectionId connection);
  void reclaimed(ClientId client);  // forget it
  std::size_t attached() const { return attached_; }

 private:
  enum class State : std::uint8_t { kConnected, kHolding, kOrphaned, kAttached };
  struct Connection {
    State state = State::kConnected;
    std::uint64_t attach = 0;
    std::uint64_t nonce = 0;
    ClientId client;
    std::string name;
  };
  std::vector<AttachEffect> refuse(ConnectionId connection, ErrorCode code, std::string text);

  SegmentId segment_;
  std::map<ConnectionId, Connection> connections_;
  std::map<std::uint64_t, ConnectionId> holding_;  // attach number -> connection
  struct Client { std::uint64_t nonce; ConnectionId connection; };
  std::map<ClientId, Client> clients_;
  std::uint64_t next_attach_ = 1;
  std::size_t attached_ = 0;
};

}  // namespace orlop::protocol
