// SPDX-License-Identifier: Apache-2.0
#include "node_process.h"

#include <string>
#include <utility>

#include "base/check.h"
#include "orlop/namespace.h"

namespace orlop::interleaving {

using protocol::NodeMachine;
using protocol::SlotGrant;
namespace event = protocol::event;

namespace {

// A machine that was stopped inside a step holds victims that are not settled, and says so when it
// is destroyed, unless an exception is on its way.
void destroy(std::unique_ptr<NodeMachine>& machine) {
  struct Guard {
    std::unique_ptr<NodeMachine>& machine;
    ~Guard() { machine.reset(); }
  };
  struct OnItsWay {};
  if (machine == nullptr) return;
  try {
    const Guard guard{machine};
    throw OnItsWay{};
  } catch (const OnItsWay&) {
  }
}

}  // namespace

NodeProcess::NodeProcess(PageWorld& world) : world_(&world) {
  clients_.push_back({kWriter, writer_.view(), "writer"});
}

NodeProcess::~NodeProcess() {
  destroy(dead_);
  destroy(machine_);
}

void NodeProcess::attach(const segment::ChannelView& channel) {
  const ClientId id{static_cast<std::uint32_t>(clients_.size() + 1)};
  clients_.push_back({id, channel, "reader " + std::to_string(id.value)});
}

protocol::NodeConfig NodeProcess::config() const {
  protocol::NodeConfig config;
  config.reserve_bytes = 1;  // less than a slot: nothing is evicted ahead of demand
  config.prepared_cap_bytes = config.max_pinned_bytes = world_->area().geometry().value_bytes();
  return config;
}

void NodeProcess::cold_start() {
  machine_ = NodeMachine::cold(world_->area(), config(), Incarnation{1}, counts_.now).value();
  for (const auto& client : clients_)
    machine_->step(event::ClientAttached{client.client, client.channel, client.name}, counts_.now,
                   effects_);
  NamespaceDescriptor descriptor;
  descriptor.engine = descriptor.model = descriptor.revision = descriptor.layout = "explorer";
  descriptor.dtype = "bf16";
  descriptor.page_tokens = 16;
  descriptor.value_len = 4096;
  const std::string text = canonical_text(descriptor).value();
  effects_.clear();
  machine_->step(event::OpenNamespace{kWriter, next_request(), text}, counts_.now, effects_);
  CHECK(effects_.answers.size() == 1 && effects_.answers[0].status == protocol::kStatusOk);
  CHECK(world_->area().current_index(kRow) == kNs);
}

std::unique_ptr<NodeMachine> NodeProcess::recovered(std::vector<NodeMachine::HandedOver> clients) {
  return NodeMachine::recover(world_->area(), config(), Incarnation{2}, std::move(clients),
                              counts_.now, nullptr)
      .value();
}

void NodeProcess::restart() {
  destroy(dead_);
  destroy(machine_);
  if (!at_first_restart_) at_first_restart_ = counts_;
  counts_ = *at_first_restart_;
  machine_ = recovered(clients_);
}

void NodeProcess::succeed() {
  dead_ = std::move(machine_);
  machine_ = recovered(clients_);
  protocol::NodeEffects effects;  // the abandoned fiber was appending to effects_
  machine_->step(event::ClientResumed{kWriter, {}}, counts_.now, effects);
}

void NodeProcess::succeed_without_writer() {
  dead_ = std::move(machine_);
  machine_ = recovered({clients_.begin() + 1, clients_.end()});
  protocol::NodeEffects effects;
  machine_->step(event::ClientAttached{kWriter, writer_.view(), "writer"}, counts_.now, effects);
}

std::vector<SlotGrant> NodeProcess::start(PutId put, std::span<const KeyId> keys) {
  effects_.clear();
  const auto length = static_cast<std::uint32_t>(keys.size());
  event::PutStart start{kWriter, next_request(), put, kRow, 4096, 0, keys, {&length, 1}, {}};
  machine_->put_start(start, counts_.now, effects_);
  CHECK(effects_.answers.size() == 1 && effects_.answers[0].status == protocol::kStatusOk);
  const protocol::NodeAnswer& answer = effects_.answers[0];
  std::vector<SlotGrant> grants(effects_.grants.begin() + answer.first_grant,
                                effects_.grants.begin() + answer.first_grant + answer.count);
  if (grants[0].slot == 0) grants.clear();
  return grants;
}

bool NodeProcess::put(std::span<const KeyId> keys) {
  const PutId put = next_put();
  const std::vector<SlotGrant> grants = start(put, keys);
  if (grants.empty()) return false;
  std::vector<protocol::CommitEntry> entries;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    world_->page(SlotId{grants[i].slot}).store(bytes_of(keys[i]), std::memory_order_relaxed);
    entries.push_back({grants[i].slot, grants[i].generation, bytes_of(keys[i])});
  }
  effects_.clear();
  machine_->put_commit({kWriter, next_request(), put, entries}, counts_.now, effects_);
  CHECK(effects_.answers.size() == 1 && effects_.answers[0].status == protocol::kStatusOk);
  return true;
}

bool NodeProcess::make_room(std::span<const KeyId> keys) {
  const PutId put = next_put();
  const bool granted = !start(put, keys).empty();
  effects_.clear();
  machine_->step(event::PutAbort{kWriter, next_request(), put}, counts_.now, effects_);
  return granted;
}

void NodeProcess::remove(std::span<const KeyId> keys) {
  effects_.clear();
  machine_->step(event::Remove{kWriter, next_request(), kRow, keys}, counts_.now, effects_);
}

void NodeProcess::bury_readers() {
  effects_.clear();
  for (std::size_t i = 1; i < clients_.size(); ++i)
    machine_->step(event::ClientDied{clients_[i].client, false}, counts_.now, effects_);
}

void NodeProcess::idle() {
  counts_.now += kNsPerSecond;
  effects_.clear();
  machine_->step(event::Tick{}, counts_.now, effects_);
  while (machine_->wants_background()) {
    effects_.clear();
    machine_->run_background(counts_.now, effects_);
    for (const protocol::PunchIndexPlace& punch : effects_.punch) {
      segment::IndexBucket* buckets = world_->area().index_place(punch.place);
      const std::uint64_t words = world_->area().geometry().index_place_bytes / 8;
      for (std::uint64_t i = 0; i < words; ++i)
        reinterpret_cast<segment::Atomic<std::uint64_t>*>(buckets)[i].store(
            0, std::memory_order_relaxed);
      machine_->index_place_punched(punch.place);
    }
  }
}

}  // namespace orlop::interleaving
