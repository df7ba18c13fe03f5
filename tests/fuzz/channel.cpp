// SPDX-License-Identifier: Apache-2.0
// Contract: a client that writes anything into its channel and the value area, beside an honest
// one.
//   * The node goes on: its tables agree (validate()), also over restarts; what is malformed closes
//     that client.
//   * What the honest client reserved stays reserved, what it pinned stays as it is, until it ends
//     them; nobody else is given that memory.
//   * The honest client, which verifies, never takes wrong bytes for right.
//   * When the hostile one is dead nothing of it is left, and the honest one can store and read.
// Not claimed: that it cannot remove, flush, drain or fill (docs/operations/security.md), nor that
// bytes of a client that computes checksums are told from right ones.
#include <algorithm>

#include "fuzz_target.h"
#include "hostile_client.h"
#include "segment/ledger.h"
#include "segment/pin.h"

namespace orlop::fuzz {
namespace {

using namespace protocol;
using segment::SlotState;

constexpr ClientId kHonest{1};
constexpr std::uint32_t kKeys = 32;  // that the honest client uses
constexpr unsigned kMostActs = 400;

class World {
 public:
  World() {
    host().start_cold();
    honest().format(kHonest);
    host().attach(kHonest, honest().view(), "honest");
    spaces_ = {host().open(kHonest, 0, 256), host().open(kHonest, 1, 256),
               host().open(kHonest, 2, 5000)};
    attach_hostile();
    host().on_effects = [this](const NodeEffects& effects) {
      hostile_->server().carry_out(effects);
    };
  }
  ~World() {
    host().on_effects = nullptr;
    host().kill();
  }

  void run(Input& input) {
    for (unsigned n = 0; n < kMostActs && !input.empty(); ++n) {
      act(input);
      check_honest();
    }
    host().node().validate();
    finish();
  }

 private:
  struct Pin {
    KeyId key;
    std::size_t space;
    segment::PinnedSlot slot;
    std::uint32_t cell;
  };
  struct OpenPut {
    std::size_t space;
    std::vector<KeyId> keys;
    Host::Put put;
    std::vector<CommitEntry> entries;
  };

  static Host& host() {
    static Host& one = *new Host;
    return one;
  }
  static HostChannel& honest() {
    static HostChannel& one = *new HostChannel;
    return one;
  }

  void attach_hostile() {
    hostile_ = std::make_unique<HostileClient>(host(), ClientId{++clients_}, kHonest);
    host().attach(hostile_->client(), hostile_->channel().view(), "hostile");
  }

  void act(Input& input) {
    switch (input.below(20)) {
      case 0:
      case 1:
      case 2:
        hostile_->request(input);
        if (input.flag()) return;
        [[fallthrough]];
      case 3:
        hostile_->server().serve();
        break;
      case 4:
        hostile_->raw_message(input);
        hostile_->server().serve();
        break;
      case 5:
        hostile_->scribble(input);
        break;
      case 6:
        hostile_->counters(input);
        break;
      case 7:
        hostile_->pin(input);
        break;
      case 8:
        if (!hostile_->server().reclaimed()) hostile_->resume(input);
        break;
      case 9:
        hostile_dies(input);
        break;
      case 10:
        scribble_values(input);
        break;
      case 11:
      case 12:
        honest_puts(input);
        break;
      case 13:
        honest_starts(input);
        break;
      case 14:
        if (!open_.empty()) honest_commits();
        break;
      case 15:
        honest_pins(input);
        break;
      case 16:
        honest_releases();
        break;
      case 17:
        host().now += std::uint64_t{input.take<std::uint8_t>()} * 100 * kNsPerMs;
        host().step(event::Tick{});
        host().carry_out();
        break;
      case 18:
        host().run_background();
        break;
      default:
        if (input.flag()) return restart();
        look();
    }
  }

  // ---- the hostile client ----

  void hostile_dies(Input& input) {
    const ClientId client = hostile_->client();
    hostile_->server().stop();
    const bool fork_open = input.flag();
    host().step(event::ClientDied{client, fork_open});
    host().carry_out();
    if (fork_open) host().step(event::ForkPipeClosed{client});
    CHECK(hostile_->server().reclaimed());
    hostile_->check_plans();
    attach_hostile();
  }

  void scribble_values(Input& input) {
    const SlotId slot{1 + input.below(Host::kSlots)};
    const std::span<std::byte> bytes = host().value(slot, kPageBytes);
    const std::size_t at = input.take<std::uint16_t>() % bytes.size();
    const auto from = input.short_bytes();
    for (std::size_t i = 0; i < from.size() && at + i < bytes.size(); ++i) bytes[at + i] ^= from[i];
  }

  // ---- the honest client ----

  std::vector<KeyId> fresh_keys(Input& input) {
    return host_keys(input.below(kKeys), 1 + input.below(6));
  }
  void honest_puts(Input& input) {
    const HostNamespace& ns = spaces_[input.below(3)];
    const auto keys = fresh_keys(input);
    const std::uint32_t whole[] = {static_cast<std::uint32_t>(keys.size())};
    const bool group = input.flag();
    host().put(kHonest, ns, keys,
               group ? std::span<const std::uint32_t>(whole) : std::span<const std::uint32_t>());
  }
  void honest_starts(Input& input) {
    if (open_.size() >= 4) return;
    OpenPut put{input.below(3), fresh_keys(input), {}, {}};
    put.put = host().put_start(kHonest, spaces_[put.space], put.keys);
    host().carry_out();
    if (!put.put.answered || put.put.status != kStatusOk) return;
    put.entries = host().write_values(spaces_[put.space], put.keys, put.put);
    if (!put.entries.empty()) open_.push_back(std::move(put));
  }
  void honest_commits() {
    const OpenPut put = open_.front();
    open_.erase(open_.begin());
    const auto outcomes = host().commit(kHonest, put.put, put.entries);
    CHECK(outcomes.size() == put.entries.size());
    host().carry_out();
  }
  void honest_pins(Input& input) {
    if (pins_.size() > 24) return;
    const std::size_t space = input.below(3);
    const auto keys = fresh_keys(input);
    std::vector<std::uint32_t> cells;
    for (std::uint32_t cell = 0; cells.size() < keys.size(); ++cell) {
      if (std::ranges::none_of(pins_, [&](const Pin& pin) { return pin.cell == cell; }))
        cells.push_back(cell);
    }
    honest().view().bitmap()[0].store(1);
    std::vector<segment::PinnedSlot> out(keys.size());
    const auto index = host().area().current_index(spaces_[space].row);
    const auto pinned =
        segment::pin_prefix(host().area(), honest().view(), cells, keys, index, out);
    for (std::uint32_t i = 0; i < pinned.pinned; ++i) {
      pins_.push_back({keys[i], space, out[i], cells[i]});
      accepted(pins_.back());
    }
  }
  void honest_releases() {
    for (const Pin& pin : pins_) accepted(pin);
    std::vector<std::uint32_t> cells;
    for (const Pin& pin : pins_) cells.push_back(pin.cell);
    segment::release_cells(honest().view(), cells);
    pins_.clear();
  }
  // CHECKs that what it would accept is right.
  bool accepted(const Pin& pin) {
    return host().accepts(spaces_[pin.space], pin.key, pin.slot.slot, pin.slot.value_len,
                          pin.slot.checksum);
  }

  void check_honest() {
    for (const Pin& pin : pins_) {
      const segment::SlotWord word = host().area().slot(pin.slot.slot).load_word();
      CHECK(word.generation == pin.slot.generation && word.state != SlotState::kFree &&
                word.state != SlotState::kPrepared,
            "a pinned slot is not reused");
    }
    for (const OpenPut& put : open_) {
      for (const CommitEntry& entry : put.entries) {
        const segment::SlotRow& row = host().area().slot(SlotId{entry.slot});
        const segment::SlotWord word = row.load_word();
        CHECK(word.generation.value == entry.generation && word.state == SlotState::kPrepared &&
                  row.load_put() == put.put.id,
              "what is reserved stays reserved");
      }
    }
  }

  // ---- the node ----

  void restart() {
    std::vector<NodeMachine::HandedOver> clients = {{kHonest, honest().view(), "honest"}};
    if (!hostile_->server().reclaimed())
      clients.push_back({hostile_->client(), hostile_->channel().view(), "hostile"});
    hostile_->server().stop();
    CHECK(host().start_warm(std::move(clients)), "clients cannot spoil a restart");
    host().node().validate();
    std::vector<PutId> held;
    for (const OpenPut& put : open_) held.push_back(put.put.id);
    host().step(event::ClientResumed{kHonest, held});
    host().carry_out();
  }

  void look() {
    host().node().read_clients(host().now);
    host().node().gauges(host().now);
    host().node().clients(host().now);
    host().node().namespaces();
    for (const ClientId client : {kHonest, hostile_->client()})
      host().node().inspect(question::Client{client}, host().now);
    host().node().inspect(question::SlotSums{}, host().now);
    host().node().inspect(question::SlotList{}, host().now);
  }

  void finish() {
    const ClientId client = hostile_->client();
    hostile_->server().stop();
    if (!hostile_->server().reclaimed()) {
      host().step(event::ClientDied{client, false});
      host().carry_out();
      CHECK(hostile_->server().reclaimed());
    }
    hostile_->check_plans();
    while (!open_.empty()) honest_commits();
    honest_releases();
    host().step(event::Drain{kHonest, RequestId{~0ULL}, DrainMode::kEnd});
    const auto keys = host_keys(1000, 4);
    std::size_t stored = 0;
    for (unsigned round = 0; round < 50 && stored == 0; ++round) {
      host().now += 20 * kNsPerMs;
      host().step(event::Tick{});
      host().carry_out();
      host().run_background();
      stored = host().put(kHonest, spaces_[0], keys);
    }
    host().run_background();
    host().node().validate();
    CHECK(stored > 0, "the honest client can store again");
    std::size_t hits = 0;
    for (const KeyId& key : keys) hits += host().reads(spaces_[0], key) ? 1 : 0;
    CHECK(hits > 0, "and read it");
    for (const HostNamespace& ns : spaces_)
      for (const KeyId& key : host_keys(0, kKeys + 6)) host().reads(ns, key);
    const NodeGauges gauges = host().node().gauges(host().now);
    CHECK(gauges.prepared_bytes == 0 && gauges.open_puts == 0 && gauges.waiting_puts == 0);
    CHECK(gauges.doomed_slots == 0 && !gauges.flush_pending);
    CHECK(host().node().clients(host().now).size() == 1);
  }

  std::unique_ptr<HostileClient> hostile_;
  std::vector<HostNamespace> spaces_;
  std::vector<Pin> pins_;
  std::vector<OpenPut> open_;
  std::uint32_t clients_ = kHonest.value;
};

}  // namespace

void run_one(std::span<const std::byte> bytes) {
  Input input(bytes);
  World().run(input);
}

namespace {

// Parts of seeds, as HostileClient::request() reads them.
InputWriter& tail_of_request(InputWriter& w, unsigned place) {
  return w.byte(place).byte(0).byte(0).byte(0).byte(0);  // offset, sizes as they are; serve
}
void open_space(InputWriter& w, unsigned id, unsigned rank, unsigned length) {
  w.byte(0).byte(1).byte(id).byte(rank).byte(length).byte(0);
  tail_of_request(w, 0);
}
void start_put(InputWriter& w, unsigned id, unsigned first, unsigned count, unsigned sequence) {
  w.byte(0).byte(2).byte(id).byte(count);
  for (unsigned i = 0; i < count; ++i) w.byte(first + i);
  w.byte(0).byte(0).byte(sequence).byte(0).byte(0).byte(0).put<std::uint16_t>(0).byte(0);
  tail_of_request(w, 4);
}
void commit_put(InputWriter& w, unsigned id, unsigned count) {
  w.byte(0).byte(3).byte(id).byte(0);
  for (unsigned i = 0; i < count; ++i) w.put<std::uint64_t>(i);
  w.byte(0);
  tail_of_request(w, 8);
}

}  // namespace

std::vector<Seed> make_seeds() {
  std::vector<Seed> seeds;
  InputWriter life;
  open_space(life, 1, 0, 0);
  start_put(life, 2, 100, 6, 1);
  commit_put(life, 3, 6);
  life.byte(11).byte(0).byte(0).byte(5).byte(0);                         // honest put
  life.byte(15).byte(0).byte(0).byte(5);                                 // pins it
  start_put(life, 4, 0, 4, 2);                                           // the same keys
  life.byte(0).byte(5).byte(5).byte(3).byte(0).byte(1).byte(2).byte(0);  // removes some
  tail_of_request(life, 12);
  life.byte(18).byte(16);
  seeds.push_back({"put-remove", life.take()});

  for (std::uint32_t code = 0; code < 12; ++code) {
    InputWriter w;
    w.byte(11).byte(0).byte(0).byte(5).byte(1);
    w.byte(0).byte(code).byte(7);
    for (int i = 0; i < 24; ++i) w.byte(1);
    w.byte(17).byte(2).byte(18);
    seeds.push_back({"code-" + std::to_string(code), w.take()});
  }
  InputWriter pins;
  pins.byte(13).byte(0).byte(0).byte(3);  // honest start
  for (unsigned slot = 0; slot < 8; ++slot) pins.byte(7).byte(slot).byte(0).byte(0).byte(slot);
  pins.byte(12).byte(1).byte(3).byte(5).byte(0).byte(14);
  pins.byte(19).byte(1).byte(19).byte(0).byte(9).byte(1);
  seeds.push_back({"pins-restart-death", pins.take()});

  InputWriter rings;
  rings.byte(6).byte(0).byte(0).put<std::uint32_t>(500).byte(3);
  rings.byte(8).byte(2).byte(1).byte(2).byte(0).byte(1);
  rings.byte(5).byte(2).put<std::uint16_t>(0).byte(1).byte(3).put<std::uint32_t>(0x01020304);
  rings.byte(6).byte(0).byte(1).byte(5).byte(3);
  seeds.push_back({"counters-resume-scribble", rings.take()});

  InputWriter values;
  values.byte(11).byte(0).byte(0).byte(5).byte(0);
  values.byte(10).byte(0).put<std::uint16_t>(9).short_text("x");
  values.byte(15).byte(0).byte(0).byte(5).byte(16);
  values.byte(0).byte(7).byte(9).byte(0).byte(0).byte(0);
  tail_of_request(values, 0);
  seeds.push_back({"scribble-report", values.take()});
  return seeds;
}

}  // namespace orlop::fuzz
