// SPDX-License-Identifier: Apache-2.0
// One host in private memory: segment, values, channels and the real node machine, for the targets
// that let somebody write into shared memory. Values have real bytes and real checksums, so that a
// target can ask what a reader would be given.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memory.h"
#include "protocol/node/node_machine.h"
#include "segment/channel.h"
#include "segment/control_area.h"

namespace orlop::fuzz {

// A namespace as a client knows it: what it computes itself is not read from shared memory.
struct HostNamespace {
  std::string text;
  std::uint64_t digest = 0;  // the first 64 bits of the descriptor's digest
  std::uint32_t number = 0;  // of its values' bytes
  std::uint32_t value_len = 0;
  NamespaceRow row;
};

// 64 ledger cells, the least of everything else: little to clear between inputs.
class HostChannel {
 public:
  HostChannel();
  // As new, for this client.
  void format(ClientId client);
  const segment::ChannelView& view() const { return view_; }
  std::span<std::byte> span() const { return memory_.span(); }

 private:
  simulation::ChannelMemory memory_;
  segment::ChannelView view_;
};

class Host {
 public:
  // 32 slabs of 8 KiB: little to put back between inputs.
  static constexpr std::uint64_t kCapacity = 256 * kKiB;
  static constexpr std::uint32_t kMaxValueLen = 8 * kKiB;
  static constexpr std::uint32_t kSlots = 64;  // of 4 KiB, at most

  struct Put {
    PutId id;
    std::uint64_t status = protocol::kStatusOk;
    bool answered = false;
    std::vector<protocol::SlotGrant> grants;
    std::vector<Outcome> outcomes;
  };

  Host();
  // Empty memory and a node that just started on it.
  void start_cold();
  // A node on the memory as it is. False: it refused, and said why.
  bool start_warm(std::vector<protocol::NodeMachine::HandedOver> clients);
  void kill() { node_.reset(); }

  protocol::NodeMachine& node() { return *node_; }
  const segment::ControlArea& area() const { return area_; }
  std::span<std::byte> control() const { return memory_.control_span(); }
  const simulation::SegmentMemory& memory() const { return memory_; }
  protocol::NodeEffects& effects() { return effects_; }
  MonoNs now = 0;
  // Sees what every call of the machine wants, before the next call. May be empty.
  std::function<void(const protocol::NodeEffects&)> on_effects;

  // ---- the driver's part ----
  void attach(ClientId client, const segment::ChannelView& channel, std::string name);
  void step(const protocol::NodeEvent& event);  // effects() are of this step
  // Index places, checks of values. Not the answers.
  void carry_out();
  // Background slices until none is wanted.
  void run_background();

  // ---- an honest client's part, without rings ----
  static std::string descriptor(std::uint32_t rank, std::uint32_t value_len);
  HostNamespace open(ClientId client, std::uint32_t rank, std::uint32_t value_len);
  Put put_start(ClientId client, const HostNamespace& ns, std::span<const KeyId> keys,
                std::span<const std::uint32_t> groups = {}, std::optional<KeyId> parent = {});
  // Writes the right bytes into what was granted; the entries of its commit.
  std::vector<protocol::CommitEntry> write_values(const HostNamespace& ns,
                                                  std::span<const KeyId> keys,
                                                  const Put& put) const;
  std::vector<Outcome> commit(ClientId client, const Put& put,
                              std::span<const protocol::CommitEntry> entries);
  // All of it in one; how many keys are stored now.
  std::size_t put(ClientId client, const HostNamespace& ns, std::span<const KeyId> keys,
                  std::span<const std::uint32_t> groups = {}, std::optional<KeyId> parent = {});

  // What a client would be given that asks for the key and verifies. CHECKs that what it would
  // accept are the right bytes.
  bool reads(const HostNamespace& ns, const KeyId& key) const;
  // The same for a slot that it has found or pinned.
  bool accepts(const HostNamespace& ns, const KeyId& key, SlotId slot, std::uint32_t value_len,
               std::uint64_t checksum) const;
  std::span<std::byte> value(SlotId slot, std::uint32_t value_len) const {
    return memory_.value(slot, value_len);
  }

 private:
  void clear();
  void tell() const {
    if (on_effects) on_effects(effects_);
  }

  simulation::SegmentMemory memory_;
  segment::ControlArea area_;
  std::unique_ptr<protocol::NodeMachine> node_;
  protocol::NodeEffects effects_;
  std::uint64_t requests_ = 0, puts_ = 0;
  std::uint64_t incarnations_ = 0;
  std::uint32_t rows_used_ = segment::kMaxNamespaceRows;  // whose texts are not zero
};

// The keys of these targets, by number.
KeyId host_key(std::uint64_t number);
std::vector<KeyId> host_keys(std::uint64_t first, std::size_t count);

}  // namespace orlop::fuzz
