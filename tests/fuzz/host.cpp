// SPDX-License-Identifier: Apache-2.0
#include "host.h"

#include <algorithm>
#include <cstring>

#include "base/rng.h"
#include "copy/checksum.h"
#include "copy/copy.h"
#include "orlop/namespace.h"
#include "segment/key_id.h"
#include "segment/key_index.h"
#include "value_bytes.h"

namespace orlop::fuzz {

using namespace protocol;
using segment::SlotState;

namespace {

// A reserve of less than a slot: everything can be filled.
NodeConfig host_config() {
  NodeConfig config;
  config.reserve_bytes = 1;
  config.prepared_cap_bytes = Host::kCapacity;
  config.max_pinned_bytes = Host::kCapacity;
  config.flush_slice_slots = 32;
  config.index_slice_buckets = 4;
  config.min_evict_groups = 4;
  return config;
}

segment::ChannelSizes host_channel_sizes() {
  return {64, segment::kMinTouchCells, segment::kMinPartBytes, segment::kMinPartBytes};
}

}  // namespace

HostChannel::HostChannel() : memory_(host_channel_sizes()) {
  format(ClientId{1});
}

void HostChannel::format(ClientId client) {
  memory_.memory.clear();
  view_ = segment::ChannelView::format(span(), memory_.geometry, memory_.sizes, client);
}

Host::Host() : memory_(kCapacity, kMaxValueLen) {}

// Only what a run can have written: the whole is 4 MiB of texts that nobody opened.
void Host::clear() {
  const segment::Geometry& g = memory_.geometry;
  const std::span<std::byte> all = control();
  const auto zero = [&all](std::uint64_t from, std::uint64_t to) {
    std::memset(all.data() + from, 0, to - from);
  };
  zero(0, g.namespace_text_offset + std::uint64_t{rows_used_} * segment::kNamespaceTextBytes);
  zero(g.slot_table_offset, g.control_bytes);
  std::memset(memory_.values.first(g.value_bytes()).data(), 0, g.value_bytes());
}

void Host::start_cold() {
  if (node_ != nullptr)
    rows_used_ = std::max(rows_used_, static_cast<std::uint32_t>(node_->namespaces().size()));
  kill();
  clear();
  now = 100 * kNsPerSecond;
  requests_ = puts_ = 0;
  incarnations_ = 1;
  area_ = segment::ControlArea::format(control(), memory_.geometry, SegmentId{77});
  node_ = NodeMachine::cold(area_, host_config(), Incarnation{incarnations_}, now).value();
  rows_used_ = 0;
}

bool Host::start_warm(std::vector<NodeMachine::HandedOver> clients) {
  kill();
  auto area = segment::ControlArea::open(control());
  if (!area) {
    CHECK(!area.error().message.empty());
    return false;
  }
  area_ = *area;
  RecoveryReport report;
  auto node = NodeMachine::recover(area_, host_config(), Incarnation{++incarnations_},
                                   std::move(clients), now, &report);
  if (!node) {
    CHECK(!node.error().message.empty());
    return false;
  }
  node_ = std::move(*node);
  return true;
}

// ---- driver ----

void Host::attach(ClientId client, const segment::ChannelView& channel, std::string name) {
  step(event::ClientAttached{client, channel, std::move(name)});
}

void Host::step(const NodeEvent& event) {
  effects_.clear();
  node_->step(event, now, effects_);
  tell();
}

void Host::carry_out() {
  for (const PunchIndexPlace& punch : std::vector(effects_.punch)) {
    std::memset(static_cast<void*>(area_.index_place(punch.place)), 0,
                area_.geometry().index_place_bytes);
    node_->index_place_punched(punch.place);
  }
  for (const VerifyValue& ask : std::vector(effects_.verify)) {
    // As src/runtime/value_verifier.cpp.
    const bool matches =
        area_.geometry().in_bounds(ask.slot, ask.value_len) &&
        checksum(value(ask.slot, ask.value_len), {ask.key, ask.namespace_digest}) == ask.expected;
    step(event::ValueVerified{ask.reporter, ask.slot, ask.generation, matches});
  }
}

void Host::run_background() {
  for (unsigned slice = 0; node_->wants_background(); ++slice) {
    CHECK(slice < 100'000, "background work ends");
    effects_.clear();
    node_->run_background(now, effects_);
    tell();
    carry_out();
  }
}

// ---- honest client ----

std::string Host::descriptor(std::uint32_t rank, std::uint32_t value_len) {
  NamespaceDescriptor d;
  d.engine = "demo";
  d.layout = "demo-1";
  d.model = "model";
  d.revision = "r1";
  d.dtype = "bf16";
  d.page_tokens = 16;
  d.value_len = value_len;
  d.tp_rank = rank;
  d.tp_size = 8;
  return canonical_text(d).value();
}

HostNamespace Host::open(ClientId client, std::uint32_t rank, std::uint32_t value_len) {
  HostNamespace ns;
  ns.text = descriptor(rank, value_len);
  ns.digest = segment::digest_of(ns.text).lo;
  ns.number = rank;
  ns.value_len = value_len;
  step(event::OpenNamespace{client, RequestId{++requests_}, ns.text});
  CHECK(effects_.answers.size() == 1 && effects_.answers[0].status == kStatusOk);
  ns.row = NamespaceRow{static_cast<std::uint32_t>(effects_.answers[0].args[0])};
  rows_used_ = std::max(rows_used_, ns.row.value + 1);
  return ns;
}

Host::Put Host::put_start(ClientId client, const HostNamespace& ns, std::span<const KeyId> keys,
                          std::span<const std::uint32_t> groups, std::optional<KeyId> parent) {
  Put put;
  put.id = make_put_id(client, ++puts_);
  const RequestId request{++requests_};
  effects_.clear();
  node_->put_start({client, request, put.id, ns.row, ns.value_len, 0, keys, groups, parent}, now,
                   effects_);
  tell();
  for (const NodeAnswer& answer : effects_.answers) {
    if (answer.request != request || answer.client != client) continue;
    put.answered = true;
    put.status = answer.status;
    if (answer.status != kStatusOk) continue;
    CHECK(answer.count == keys.size());
    const auto grants = effects_.grants.begin() + answer.first_grant;
    const auto outcomes = effects_.outcomes.begin() + answer.first_outcome;
    put.grants.assign(grants, grants + answer.count);
    put.outcomes.assign(outcomes, outcomes + answer.count);
  }
  return put;
}

std::vector<CommitEntry> Host::write_values(const HostNamespace& ns, std::span<const KeyId> keys,
                                            const Put& put) const {
  std::vector<CommitEntry> entries;
  for (std::size_t i = 0; i < put.grants.size(); ++i) {
    const SlotGrant& grant = put.grants[i];
    CHECK((grant.slot != 0) == (put.outcomes[i] == Outcome::kPrepared));
    if (grant.slot == 0) continue;
    const std::span<std::byte> bytes = value(SlotId{grant.slot}, ns.value_len);
    simulation::write_value({keys[i], ns.number}, bytes, 0, bytes.size());
    entries.push_back({grant.slot, grant.generation, checksum(bytes, {keys[i], ns.digest})});
  }
  return entries;
}

std::vector<Outcome> Host::commit(ClientId client, const Put& put,
                                  std::span<const CommitEntry> entries) {
  effects_.clear();
  const RequestId request{++requests_};
  node_->put_commit({client, request, put.id, entries}, now, effects_);
  tell();
  for (const NodeAnswer& answer : effects_.answers) {
    if (answer.request != request || answer.client != client) continue;
    const auto outcomes = effects_.outcomes.begin() + answer.first_outcome;
    return {outcomes, outcomes + answer.count};
  }
  CHECK(false, "a commit is answered at once");
  return {};
}

std::size_t Host::put(ClientId client, const HostNamespace& ns, std::span<const KeyId> keys,
                      std::span<const std::uint32_t> groups, std::optional<KeyId> parent) {
  const Put started = put_start(client, ns, keys, groups, parent);
  const auto entries = write_values(ns, keys, started);
  carry_out();
  if (entries.empty()) return 0;
  const auto outcomes = commit(client, started, entries);
  CHECK(outcomes.size() == entries.size());
  carry_out();
  return static_cast<std::size_t>(std::ranges::count(outcomes, Outcome::kStored));
}

// ---- readers ----

bool Host::reads(const HostNamespace& ns, const KeyId& key) const {
  const NamespaceIndex index = area_.current_index(ns.row);
  if (!index) return false;
  const segment::IndexHit hit = segment::index_find(area_, area_.index_word(), key, index);
  if (!hit.slot) return false;
  const segment::SlotRow& row = area_.slot(hit.slot);
  return accepts(ns, key, hit.slot, row.load_value_len(), row.load_checksum());
}

bool Host::accepts(const HostNamespace& ns, const KeyId& key, SlotId slot, std::uint32_t value_len,
                   std::uint64_t checksum) const {
  // As src/client/core_reads.cpp does before it makes an address of them.
  if (value_len != ns.value_len || !area_.geometry().in_bounds(slot, value_len)) return false;
  const std::span<const std::byte> bytes = value(slot, value_len);
  if (!verify(bytes.data(), bytes.size(), {key, ns.digest}, checksum)) return false;
  CHECK(simulation::value_is_right({key, ns.number}, bytes, 0, bytes.size()),
        "a reader that verifies accepted wrong bytes");
  return true;
}

KeyId host_key(std::uint64_t number) {
  std::uint64_t state = number;
  return {splitmix64(state), splitmix64(state)};
}

std::vector<KeyId> host_keys(std::uint64_t first, std::size_t count) {
  std::vector<KeyId> keys;
  for (std::size_t i = 0; i < count; ++i) keys.push_back(host_key(first + i));
  return keys;
}

}  // namespace orlop::fuzz
