// SPDX-License-Identifier: Apache-2.0
// The real node machine as a fiber's process, with a writing client that does as it is told.
//
// The constructor of a program fills the segment once (cold start). reset() starts a server over it
// by the real recovery: that is cheaper than to copy a machine, and is one more thing that is run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "page_world.h"
#include "protocol/node/node_machine.h"

namespace orlop::interleaving {

class NodeProcess {
 public:
  explicit NodeProcess(PageWorld& world);
  ~NodeProcess();
  NodeProcess(const NodeProcess&) = delete;
  NodeProcess& operator=(const NodeProcess&) = delete;

  // ---- once
  void attach(const segment::ChannelView& channel);
  // Opens the namespace kNs; then put() works until the first restart().
  void cold_start();

  // ---- before each schedule
  void restart();

  // ---- from another fiber, after the node was abandoned
  // The next server: recovers, and the writer comes back holding nothing.
  void succeed();
  // The same, but the writer died with the node and nobody handed it over; another takes its place.
  void succeed_without_writer();

  // ---- from the node's fiber
  // One group: put_start (evicts as it must), the writer's bytes, put_commit. False: no space.
  bool put(std::span<const KeyId> keys);
  // put_start and abort: slots become free and stay free.
  bool make_room(std::span<const KeyId> keys);
  void remove(std::span<const KeyId> keys);
  // Attached readers die and are reclaimed: their cells count no more.
  void bury_readers();
  // Time passes: scans for what is marked and doomed, background work.
  void idle();
  protocol::NodeMachine& machine() { return *machine_; }

 private:
  std::unique_ptr<protocol::NodeMachine> recovered(
      std::vector<protocol::NodeMachine::HandedOver> clients);
  std::vector<protocol::SlotGrant> start(PutId put, std::span<const KeyId> keys);
  RequestId next_request() { return RequestId{++counts_.requests}; }
  PutId next_put() { return make_put_id(kWriter, ++counts_.puts); }
  protocol::NodeConfig config() const;

  static constexpr ClientId kWriter{1};
  static constexpr NamespaceRow kRow{0};

  PageWorld* world_;
  ClientChannel writer_;
  std::vector<protocol::NodeMachine::HandedOver> clients_;  // the writer, then the readers
  std::unique_ptr<protocol::NodeMachine> machine_;
  std::unique_ptr<protocol::NodeMachine> dead_;  // an abandoned fiber's stack still points to it
  protocol::NodeEffects effects_;
  struct Counts {  // the same in every schedule
    MonoNs now = 100 * kNsPerSecond;
    std::uint64_t requests = 0;
    std::uint32_t puts = 0;
  };
  Counts counts_;
  std::optional<Counts> at_first_restart_;
};

}  // namespace orlop::interleaving
