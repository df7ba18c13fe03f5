// SPDX-License-Identifier: Apache-2.0
// The server's half of attach and resume, per connection: a client gets its descriptors only after
// the keeper has acknowledged that it holds channel, doorbells, pidfd and fork pipe. Pure.
//
//   state \ event | Attach               | Resume               | Held(id)      | Held(0) /
//   hold_failed
//   --------------+----------------------+----------------------+---------------+----------------------
//   Connected     | -> Holding           | -> Attached          | -             | -
//   Holding       | refuse               | refuse               | -> Attached   | refuse
//   (orphaned)    | -                    | -                    | DropHeld      | gone
//   Attached      | refuse, client lost  | refuse, client lost  | -             | -
//
//   state \ event | malformed frame      | hang-up              | deadline (kHandshakeLimit)
//   --------------+----------------------+----------------------+---------------------------
//   Connected     | refuse               | gone                 | refuse
//   Holding       | refuse -> orphaned   | -> orphaned          | refuse -> orphaned
//   Attached      | refuse, client lost  | client lost          | -
//
// An orphaned hold is one whose connection went while the keeper was asked. Its client never got a
// descriptor, so what the keeper holds is dropped as soon as it says so.
//
// Who may claim to be a known client: the same nonce from the same process (pid by the kernel; a
// pid is not reused while its client is known, because a client is known until the proof of its
// death was served). Then the newest connection wins: an older one is closed first.
//   * Attach from a known instance says that it never received its channel (a server died between
//     keeper and client, or the packet was cut): that client is forgotten, a new one is made.
//   * An instance has one channel: whatever else is known under its nonce is forgotten at its
//     attach or resume (a server may die with two holds of one instance at the keeper).
//   * Resume names segment, client and nonce; the server may touch its rings again from then on.
//
// Codes of refusals, for the library: kAbiMismatch (do not retry), kInvalidArgument (a bug),
// kRefused (other user, death could not be proved), kLimit (retry later), kClosed (resume of memory
// or of a client that is gone: end all plans, attach as a new instance), kWrongState (second frame
// on a connection), kDeadline (handshake took too long; retry), kNoMemory / kSystem (the node could
// not make the channel; retry later).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "orlop/error.h"
#include "protocol/attach/frames.h"

namespace orlop::protocol {

using ConnectionId = Id<struct ConnectionIdTag, std::uint64_t>;  // driver's number of a socket

// Connections that have not finished their handshake, at once; and how long one may take. A stuck
// peer costs a descriptor for that long, never a client's place.
inline constexpr std::size_t kMaxHandshakes = 64;
inline constexpr MonoNs kHandshakeLimit = 5 * kNsPerSecond;

// What the driver has to do, in order.
namespace attach_effect {
// Create channel and doorbells, send kHold with them, the pidfd and the fork pipe that came with
// the frame. On failure: hold_failed().
struct CreateAndHold {
  ConnectionId connection;
  HoldFrame frame;
};
// The node machine's ClientAttached. Comes before Welcome: the client may post at once.
struct AddClient {
  ConnectionId connection;
  ClientId client;
  std::string name;
};
// Format the channel's header for this client (AddClient has done it), send kWelcome.
struct Welcome {
  ConnectionId connection;
  ClientId client;
};
// Reset the node's side of the rings, the node machine's ClientResumed, then send kResumed.
struct Resume {
  ConnectionId connection;
  ResumeFrame frame;
};
// The node machine's ClientLost; stop touching the channel's rings first.
struct ClientLost {
  ClientId client;
};
// The client says that it never had its channel: reclaim it as if its process were dead.
struct Forget {
  ClientId client;
};
// Send the refusal if the socket takes it, then close.
struct Refuse {
  ConnectionId connection;
  RefusalFrame frame;
};
struct Close {
  ConnectionId connection;
};
// Tell the keeper to let go of a client that never was told.
struct DropHeld {
  ClientId client;
};
}  // namespace attach_effect
using AttachEffect =
    std::variant<attach_effect::CreateAndHold, attach_effect::AddClient, attach_effect::Welcome,
                 attach_effect::Resume, attach_effect::ClientLost, attach_effect::Forget,
                 attach_effect::Refuse, attach_effect::Close, attach_effect::DropHeld>;
using AttachEffects = std::vector<AttachEffect>;

class AttachMachine {
 public:
  // Clients handed over by the keeper.
  struct Known {
    ClientId client;
    std::uint64_t nonce = 0;
    std::uint32_t pid = 0;
  };
  // Who is at the other end, by the kernel. refuse: what the driver found out (other user, no pidfd
  // to be had); said when the first frame comes, because a refusal that is sent before the peer has
  // spoken may be lost with the reset of its connection.
  struct Peer {
    std::uint32_t pid = 0;
    std::optional<RefusalFrame> refuse;
  };
  AttachMachine(SegmentId segment, const std::vector<Known>& known);

  AttachEffects connected(ConnectionId connection, Peer peer, MonoNs now);
  // descriptors: how many came with it.
  AttachEffects frame(ConnectionId connection, std::span<const std::byte> bytes,
                      unsigned descriptors, MonoNs now);
  // Its frame came without its descriptors: the node has no place for them. Refused with the error,
  // as a malformed one.
  AttachEffects unreceived(ConnectionId connection, const Error& error);
  AttachEffects held(const HeldFrame& frame);
  // attach: HoldFrame::attach of the CreateAndHold that could not be carried out.
  AttachEffects hold_failed(std::uint64_t attach, const Error& error);
  AttachEffects hung_up(ConnectionId connection);
  // The driver closes this connection itself (malformed ring message); tells the client why.
  AttachEffects expel(ClientId client, const Error& error);
  // Nothing is left of the client.
  void reclaimed(ClientId client);
  AttachEffects tick(MonoNs now);
  MonoNs next_deadline() const;  // kNever if none

  std::size_t attached() const { return attached_; }     // clients with a connection
  std::size_t known() const { return clients_.size(); }  // of these and lost ones
  std::size_t handshakes() const { return connections_.size() - attached_; }

 private:
  struct Connected {};
  struct Holding {
    std::uint64_t attach = 0;
  };
  struct Attached {
    ClientId client;
  };
  struct Connection {
    Peer peer;
    MonoNs deadline = 0;  // of the handshake
    std::variant<Connected, Holding, Attached> state;
  };
  struct Hold {
    ConnectionId connection;  // 0: orphaned
    std::uint64_t nonce = 0;
    std::uint32_t pid = 0;
    std::string name;
    ClientId guessed;  // planted bug only
  };
  struct Client {
    std::uint64_t nonce = 0;
    std::uint32_t pid = 0;
    ConnectionId connection;  // 0: lost
    bool forgotten = false;   // being reclaimed on its own word
  };

  void first_frame(ConnectionId id, Connection& connection, std::span<const std::byte> bytes,
                   AttachEffects& effects);
  void attach(ConnectionId id, Connection& connection, const AttachFrame& frame,
              AttachEffects& effects);
  void resume(ConnectionId id, Connection& connection, ResumeFrame&& frame, AttachEffects& effects);
  void admit(ConnectionId id, Connection& connection, ClientId client, const Hold& hold,
             AttachEffects& effects);
  void forget_others(std::uint64_t nonce, ClientId own, AttachEffects& effects);
  void take_over(ClientId client, AttachEffects& effects);
  void leave(ConnectionId id, AttachEffects& effects);
  void refuse(ConnectionId id, ErrorCode code, std::string text, AttachEffects& effects);

  SegmentId segment_;
  std::map<ConnectionId, Connection> connections_;
  std::map<std::uint64_t, Hold> holds_;  // asked of the keeper, by attach number
  std::map<ClientId, Client> clients_;
  std::uint64_t next_attach_ = 1;
  std::size_t attached_ = 0;
  ClientId highest_client_;
};

}  // namespace orlop::protocol
