// SPDX-License-Identifier: Apache-2.0
// The keeper's side of the service manager's descriptor store: pushes descriptors, knows when the
// store has them, owns the ledger's memory. Order and rules: protocol/attach/keeper_machine.h and
// the table in docs/protocol/attach.md.
//
// Inactive (no service manager, or given up): nothing is stored, nothing is awaited.
// Thread: none; one owner.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "orlop/error.h"
#include "platform/mapping.h"
#include "platform/memory_file.h"
#include "platform/service_manager.h"
#include "protocol/attach/keeper_ledger.h"
#include "runtime/segment_files.h"

namespace orlop::node {

// From the last push to the manager's word that it read it. Shorter than a handshake (5 s) would
// refuse clients for nothing more than a busy manager; longer would keep a new server waiting.
inline constexpr MonoNs kStoreLimit = 4 * kNsPerSecond;

class KeeperStore {
 public:
  using Item = std::variant<ClientId, std::uint32_t>;  // a client, or the number of a server

  explicit KeeperStore(ServiceManager& manager) : manager_(manager) {}

  // A new segment: a void ledger, both areas. Active from then on, if there is a manager.
  Result<void> begin(const runtime::SegmentFiles& segment);
  // Of a segment that was taken over: everything is there already.
  void go_on(MemoryFile ledger, Mapping mapping);
  bool active() const { return active_; }

  // Errors of these: the store is of no use any more (kLimit, kClosed, kSystem): give_up().
  // Requires of a client's descriptors: each is an open file that was never pushed (systemd passes
  // over one that it has, and its name would be missing in the next start).
  Result<void> push_client(ClientId client, std::span<const int> descriptors, MonoNs now);
  Result<void> push_server(std::uint32_t server, int pidfd, MonoNs now);
  Result<void> forget_client(ClientId client);
  Result<void> forget(const std::vector<std::string>& names);
  void write(const protocol::LedgerFrame& ledger);

  // Nobody shall believe what is stored: makes the ledger void, lets go of both areas and of it.
  // What it holds of clients is of no use without them, and is let go of when they are.
  void give_up();

  // The descriptor to watch for the end of the barrier under way; -1: none.
  int barrier_fd() const { return barrier_.get(); }
  // It is readable: what the store has now. Begins the next barrier if more was pushed meanwhile.
  Result<std::vector<Item>> barrier_ended(MonoNs now);
  MonoNs deadline() const { return barrier_ ? barrier_until_ : kNever; }

 private:
  Result<void> push(Item item, MonoNs now);
  Result<void> begin_barrier(MonoNs now);

  ServiceManager& manager_;
  bool active_ = false;
  MemoryFile ledger_file_;
  Mapping ledger_;
  FileDescriptor barrier_;
  MonoNs barrier_until_ = 0;
  std::vector<Item> before_barrier_, after_barrier_;
};

}  // namespace orlop::node
