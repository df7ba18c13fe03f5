// SPDX-License-Identifier: Apache-2.0
// A node machine over private memory, for the tests of this room: control area, channels, and calls
// that wrap one event and read its answer. Every world validates itself when it goes.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/sparse_array.h"
#include "orlop/namespace.h"
#include "protocol/node/node_machine.h"
#include "segment/key_index.h"

namespace orlop::protocol {

// Zeroed, page aligned, resident where written.
class TestMemory {
 public:
  explicit TestMemory(std::uint64_t bytes) : bytes_(bytes), memory_(bytes + kPageBytes) {}
  std::span<std::byte> span() {
    const auto at = reinterpret_cast<std::uintptr_t>(&memory_[0]);
    return {&memory_[align_up(at, kPageBytes) - at], bytes_};
  }

 private:
  std::uint64_t bytes_;
  SparseArray<std::byte> memory_;
};

inline KeyId key(std::uint64_t number) {
  std::uint64_t state = number;
  return {splitmix64(state), splitmix64(state)};
}
inline std::vector<KeyId> keys(std::uint64_t first, std::uint64_t count) {
  std::vector<KeyId> all;
  for (std::uint64_t i = 0; i < count; ++i) all.push_back(key(first + i));
  return all;
}
inline std::vector<Outcome> times(std::size_t count, Outcome outcome) {
  return std::vector<Outcome>(count, outcome);
}

struct PutExtras {
  std::vector<std::uint32_t> groups = {};
  std::optional<KeyId> parent = {};
  MonoNs wait = 0;
  std::optional<std::uint32_t> value_len = {};
  std::optional<PutId> put = {};
};

class NodeWorld {
 public:
  // Default: 32 slabs of 64 KiB, 512 slots of 4 KiB, no reserve, no wait.
  struct Options {
    std::uint64_t capacity = 2 * kMiB;
    std::uint64_t max_value_len = 64 * kKiB;
    NodeConfig config = plain_config();
  };
  static NodeConfig plain_config() {
    NodeConfig config;
    config.reserve_bytes = 1;  // less than a slot
    config.prepared_cap_bytes = 2 * kMiB;
    config.max_pinned_bytes = 2 * kMiB;
    return config;
  }
  struct Started {
    PutId put;
    std::uint64_t status = kStatusOk;
    bool answered = false;
    std::vector<SlotGrant> grants;
    std::vector<Outcome> outcomes;
    std::string text;
    std::vector<CommitEntry> entries() const {
      std::vector<CommitEntry> all;
      for (const SlotGrant& grant : grants)
        if (grant.slot != 0)
          all.push_back({grant.slot, grant.generation, checksum(grant.slot, grant.generation)});
      return all;
    }
  };
  using PutExtras = protocol::PutExtras;
  static std::uint64_t checksum(std::uint32_t slot, std::uint32_t generation) {
    return slot * 1'000'003ULL + generation;
  }

  NodeWorld() : NodeWorld(Options{}) {}
  explicit NodeWorld(const Options& options)
      : options_(options),
        geometry_(*segment::make_geometry(options.capacity, options.max_value_len)),
        memory_(geometry_.control_bytes),
        area_(segment::ControlArea::format(memory_.span(), geometry_, SegmentId{7})),
        node_(*NodeMachine::cold(area_, options.config, Incarnation{1}, now)) {}
  ~NodeWorld() {
    if (node_) node_->validate();
  }

  NodeMachine& node() { return *node_; }
  const segment::ControlArea& area() const { return area_; }
  const segment::Geometry& geometry() const { return geometry_; }
  NodeEffects& effects() { return effects_; }
  MonoNs now = 100 * kNsPerSecond;

  // ---- clients ----
  ClientId attach(const std::string& name = "worker", std::uint32_t cells = 4'096) {
    const ClientId client{next_client_++};
    segment::ChannelSizes sizes;
    sizes.ledger_cells = cells;
    sizes.touch_cells = 1'024;
    sizes.arena_bytes = sizes.plan_bytes = 64 * kKiB;
    const auto geometry = *segment::make_channel_geometry(sizes);
    Channel& channel = channels_[client];
    channel.memory = std::make_unique<TestMemory>(geometry.total_bytes);
    channel.view = segment::ChannelView::format(channel.memory->span(), geometry, sizes, client);
    channel.name = name;
    step(event::ClientAttached{client, channel.view, name});
    return client;
  }
  const segment::ChannelView& channel(ClientId client) { return channels_.at(client).view; }
  void forget_channel(ClientId client) { channels_.erase(client); }

  // A pin as a client would have it: chunk bit, then cell. Returns the cell.
  std::uint32_t pin(ClientId client, SlotId slot) {
    Channel& channel = channels_.at(client);
    const std::uint32_t cell = channel.next_cell++;
    channel.view.bitmap()[cell / 64 / 64].fetch_or(std::uint64_t{1} << (cell / 64 % 64));
    const Generation generation = area_.slot(slot).load_word().generation;
    channel.view.cells()[cell].store(segment::LedgerCell{slot, generation}.pack());
    return cell;
  }
  void unpin(ClientId client, std::uint32_t cell) { channel(client).cells()[cell].store(0); }
  void touch(ClientId client, SlotId slot) {
    auto& header = channel(client).header();
    const std::uint32_t tail = header.touch_tail.load();
    channel(client).touches()[tail % 1'024].store(slot.value);
    header.touch_tail.store(tail + 1);
  }

  // ---- events ----
  const NodeAnswer* step(const NodeEvent& event) {
    effects_.clear();
    node_->step(event, now, effects_);
    return effects_.answers.empty() ? nullptr : &effects_.answers[0];
  }
  std::string text_of(const NodeAnswer& answer) const {
    return answer.text == NodeAnswer::kNoText ? "" : effects_.texts[answer.text];
  }
  RequestId next_request() { return RequestId{++last_request_}; }
  PutId next_put(ClientId client) { return make_put_id(client, ++last_put_[client]); }

  NamespaceRow open(ClientId client, std::uint32_t value_len = 4'096,
                    const std::string& model = "model", std::uint32_t rank = 0) {
    NamespaceDescriptor d;
    d.engine = "demo";
    d.layout = "demo-1";
    d.model = model;
    d.revision = "r1";
    d.dtype = "bf16";
    d.page_tokens = 16;
    d.value_len = value_len;
    d.tp_rank = rank;
    d.tp_size = 8;
    const std::string text = *canonical_text(d);
    const NodeAnswer* answer = step(event::OpenNamespace{client, next_request(), text});
    EXPECT_EQ(answer->status, kStatusOk) << text_of(*answer);
    return NamespaceRow{static_cast<std::uint32_t>(answer->args[0])};
  }

  // The put_start's answer as it stands in effects(), not answered if it is not there.
  Started read_answer(PutId put, RequestId request) const {
    Started started;
    started.put = put;
    for (const NodeAnswer& answer : effects_.answers) {
      if (answer.request != request) continue;
      started.answered = true;
      started.status = answer.status;
      started.text = text_of(answer);
      const auto grants = effects_.grants.begin() + answer.first_grant;
      const auto outcomes = effects_.outcomes.begin() + answer.first_outcome;
      if (answer.status != kStatusOk) continue;
      started.grants.assign(grants, grants + answer.count);
      started.outcomes.assign(outcomes, outcomes + answer.count);
    }
    return started;
  }
  Started put_start(ClientId client, NamespaceRow row, const std::vector<KeyId>& of,
                    const PutExtras& extras = {}) {
    const PutId put = extras.put ? *extras.put : next_put(client);
    const std::uint32_t value_len =
        extras.value_len ? *extras.value_len : area_.namespace_row(row).value_len;
    last_put_request_ = next_request();
    effects_.clear();
    node_->put_start({client, last_put_request_, put, row, value_len, extras.wait, of,
                      extras.groups, extras.parent},
                     now, effects_);
    return read_answer(put, last_put_request_);
  }
  RequestId last_put_request() const { return last_put_request_; }
  std::vector<Outcome> commit(ClientId client, PutId put, const std::vector<CommitEntry>& entries) {
    effects_.clear();
    node_->put_commit({client, next_request(), put, entries}, now, effects_);
    return effects_.outcomes;
  }
  std::vector<Outcome> commit(ClientId client, const Started& started) {
    return commit(client, started.put, started.entries());
  }
  // Everything of `of` is stored, or the test fails.
  Started put(ClientId client, NamespaceRow row, const std::vector<KeyId>& of,
              const PutExtras& extras = {}) {
    const Started started = put_start(client, row, of, extras);
    EXPECT_EQ(started.outcomes, times(of.size(), Outcome::kPrepared)) << started.text;
    EXPECT_EQ(commit(client, started), times(of.size(), Outcome::kStored));
    return started;
  }
  void abort(ClientId client, PutId put) { step(event::PutAbort{client, next_request(), put}); }
  // Runs background slices until none is wanted; as a driver, punches index places.
  unsigned background() {
    unsigned slices = 0;
    for (; node_->wants_background(); ++slices) {
      EXPECT_LT(slices, 100'000u) << "background work never ends";
      if (slices == 100'000u) break;
      effects_.clear();
      node_->run_background(now, effects_);
      for (const PunchIndexPlace& punch : std::vector(effects_.punch)) {
        std::memset(static_cast<void*>(area_.index_place(punch.place)), 0,
                    geometry_.index_place_bytes);
        node_->index_place_punched(punch.place);
      }
    }
    return slices;
  }
  void tick() { step(event::Tick{}); }

  // ---- state ----
  segment::SlotWord word(SlotId slot) const { return area_.slot(slot).load_word(); }
  segment::SlotState state(SlotId slot) const { return word(slot).state; }
  SlotId find(NamespaceRow row, const KeyId& of) const {
    return segment::index_find(area_, area_.index_word(), of, area_.current_index(row)).slot;
  }
  std::size_t found(NamespaceRow row, const std::vector<KeyId>& of) const {
    std::size_t count = 0;
    for (const KeyId& k : of) count += find(row, k) ? 1 : 0;
    return count;
  }
  std::uint64_t in_state(segment::SlotState s) const {
    return node_->gauges(now).slots_by_state[static_cast<int>(s)];
  }

  // ---- restart ----
  // The server dies here; its private memory is gone, whatever it was doing.
  void kill() { node_.reset(); }
  // The same in the middle of a step: nothing of it may run any more, destructors included.
  void abandon() {
    // Never destroyed, so reachable to the end: no leak is reported.
    static auto& graveyard = *new std::vector<NodeMachine*>;
    graveyard.push_back(node_.release());
  }
  // A new one, with the channels the keeper still holds.
  RecoveryReport restart(bool validate = true) {
    kill();
    std::vector<NodeMachine::HandedOver> handed;
    for (auto& [client, channel] : channels_)
      handed.push_back({client, channel.view, channel.name});
    RecoveryReport report;
    auto recovered = NodeMachine::recover(area_, options_.config, Incarnation{2}, std::move(handed),
                                          now, &report);
    EXPECT_TRUE(recovered.has_value()) << recovered.error().message;
    node_ = std::move(*recovered);
    if (validate) node_->validate();
    return report;
  }

 private:
  struct Channel {
    std::unique_ptr<TestMemory> memory;
    segment::ChannelView view;
    std::string name;
    std::uint32_t next_cell = 0;
  };
  Options options_;
  segment::Geometry geometry_;
  TestMemory memory_;
  segment::ControlArea area_;
  std::map<ClientId, Channel> channels_;
  std::uint32_t next_client_ = 1;
  std::uint64_t last_request_ = 0;
  RequestId last_put_request_;
  std::map<ClientId, std::uint32_t> last_put_;
  NodeEffects effects_;
  std::unique_ptr<NodeMachine> node_;
};

}  // namespace orlop::protocol
