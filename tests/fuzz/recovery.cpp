// SPDX-License-Identifier: Apache-2.0
// Contract: the control area as a server finds it at a warm start, after damage (damage.h) to it,
// to the channels and to values.
//   * The start is refused with a reason, or it succeeds; nothing else. (Rows of slabs without a
//     class are left alone: recovery must not read them, a read of a hole allocates a page. A node
//     that meets a row in use there stops at its first use, and the next start takes the row up.)
//   * After a success table, index, allocator and policy agree (validate()), at once, after the
//   node
//     has worked on (puts, evictions, removal, flush, deaths, checks of values) and after the next
//     warm start, which never refuses what this node made of it.
//     Two sound rows of one identity, which only a row that was copied whole can give, are left as
//     they are: a reader tells the wrong one by its checksum. Then validate() is not asked.
//   * Nobody who asks for a key and verifies gets other bytes than the key's.
//   * When all clients are gone nothing is reserved, open or waiting.
#include <set>

#include "damage.h"
#include "fuzz_target.h"
#include "host.h"
#include "input.h"
#include "segment/key_index.h"

namespace orlop::fuzz {
namespace {

using namespace protocol;

constexpr std::size_t kMostDamage = 64;
constexpr ClientId kWriter{1}, kReader{2}, kNewcomer{3};

// A host with a past, as its server died: pages of three namespaces in two sizes, groups, parents,
// a partly ready group, reserved slots, pinned pages, one that was removed while pinned.
class Past {
 public:
  Past() {
    host.start_cold();
    writer.format(kWriter);
    reader.format(kReader);
    host.attach(kWriter, writer.view(), "writer");
    host.attach(kReader, reader.view(), "reader");
    spaces = {host.open(kWriter, 0, 256), host.open(kWriter, 1, 256), host.open(kReader, 2, 5000)};
    const std::uint32_t groups[] = {3, 2, 1};
    CHECK(host.put(kWriter, spaces[0], host_keys(0, 8)) == 8);
    CHECK(host.put(kWriter, spaces[0], host_keys(8, 6), groups, host_key(7)) == 6);
    CHECK(host.put(kReader, spaces[1], host_keys(0, 6), groups) == 6);
    CHECK(host.put(kReader, spaces[2], host_keys(0, 3)) == 3);
    CHECK(host.put_start(kWriter, spaces[0], host_keys(20, 4), {}).answered);
    CHECK(host.put_start(kReader, spaces[2], host_keys(20, 2), {}).answered);
    leave_partly_ready();
    pin(reader, 0, host_key(1));
    pin(reader, 1, host_key(2));
    const KeyId removed[] = {host_key(2)};
    host.step(event::Remove{kWriter, RequestId{900}, spaces[0].row, removed});
    host.run_background();
    host.node().validate();
    host.kill();
    save();
  }

  void restore() {
    for (const Saved& page : saved_) std::memcpy(page.at, page.bytes.data(), page.bytes.size());
    for (const auto& [channel, bytes] :
         {std::pair{&writer, &writer_}, std::pair{&reader, &reader_}})
      std::memcpy(channel->span().data(), bytes->data(), bytes->size());
    newcomer.format(kNewcomer);
    host.now = now_;
    host.kill();
  }

  Host host;
  HostChannel writer, reader, newcomer;
  std::vector<HostNamespace> spaces;

 private:
  struct Saved {
    std::byte* at;
    std::vector<std::byte> bytes;
  };

  // A group of three whose server died between the stores of its commit.
  void leave_partly_ready() {
    const std::uint32_t three[] = {3};
    const auto keys = host_keys(30, 3);
    const Host::Put put = host.put_start(kWriter, spaces[0], keys, three);
    const auto entries = host.write_values(spaces[0], keys, put);
    CHECK(entries.size() == 3);
    partly_ = entries;
  }
  void finish_partly_ready() {
    for (std::size_t i = partly_.size(); i-- > 1;) {
      segment::SlotRow& row = host.area().slot(SlotId{partly_[i].slot});
      segment::SlotWord word = row.load_word();
      row.store_checksums(
          partly_[i].checksum,
          segment::fields_sum(row.load_fields(), partly_[i].checksum, word.generation));
      word.state = segment::SlotState::kLocalReady;
      row.store_word(word);
    }
  }

  void pin(const HostChannel& channel, std::uint32_t cell, const KeyId& key) {
    const auto hit = segment::index_find(host.area(), host.area().index_word(), key,
                                         host.area().current_index(spaces[0].row));
    CHECK(hit.slot);
    channel.view().bitmap()[0].fetch_or(1);
    channel.view().cells()[cell].store(segment::LedgerCell{hit.slot, hit.word.generation}.pack());
  }

  // Everything that damage or a run can change: all but the texts of rows that nobody opens.
  void save() {
    finish_partly_ready();
    const segment::Geometry& g = host.memory().geometry;
    const auto keep = [this](std::span<std::byte> span) {
      saved_.push_back({span.data(), {span.begin(), span.end()}});
    };
    keep(host.control().first(g.namespace_text_offset + 16 * segment::kNamespaceTextBytes));
    keep(host.control().subspan(g.slot_table_offset, g.control_bytes - g.slot_table_offset));
    keep(host.memory().values.first(g.value_bytes()));
    writer_.assign(writer.span().begin(), writer.span().end());
    reader_.assign(reader.span().begin(), reader.span().end());
    now_ = host.now;
  }

  std::vector<CommitEntry> partly_;
  std::vector<Saved> saved_;
  std::vector<std::byte> writer_, reader_;
  MonoNs now_ = 0;
};

Past& past() {
  static Past& one = *new Past;
  return one;
}

// What recovery does not walk is as it was: never used.
void spare_unused_rows(const Host& host) {
  const segment::Geometry& g = host.memory().geometry;
  for (std::uint32_t s = 0; s < g.slab_count; ++s) {
    const std::uint32_t pages = host.area().slab(SlabId{s}).slot_pages.load();
    const std::uint32_t walked = pages == 0 ? 0 : g.ordinals_per_slab / pages;
    for (std::uint32_t ordinal = walked; ordinal < g.ordinals_per_slab; ++ordinal)
      host.area().slot(g.slot_id(SlabId{s}, ordinal)).store_word({});
  }
}

std::vector<NodeMachine::HandedOver> handed_over(Past& p) {
  return {{kWriter, p.writer.view(), "writer"}, {kReader, p.reader.view(), "reader"}};
}

bool has_twins(const Host& host) {
  std::set<std::pair<KeyId, NamespaceIndex>> seen;
  const segment::Geometry& g = host.memory().geometry;
  for (std::uint32_t id = 1; id < g.slot_rows; ++id) {
    const segment::SlotRow& row = host.area().slot(SlotId{id});
    if (row.load_word().state == segment::SlotState::kFree) continue;
    if (!seen.emplace(row.load_key(), row.load_ns()).second) return true;
  }
  return false;
}

// CHECKs inside.
std::size_t read_everything(const Past& p) {
  std::size_t hits = 0;
  for (const HostNamespace& ns : p.spaces) {
    for (const KeyId& key : host_keys(0, 64)) hits += p.host.reads(ns, key) ? 1 : 0;
  }
  return hits;
}

// Somebody new opens a namespace, if the table still lets them, and fills the memory.
void work_on(Past& p, Input& input) {
  Host& host = p.host;
  host.now += kNsPerSecond;
  host.attach(kNewcomer, p.newcomer.view(), "newcomer");
  host.step(event::OpenNamespace{kNewcomer, RequestId{950}, p.spaces[0].text});
  CHECK(host.effects().answers.size() == 1);
  if (host.effects().answers[0].status == kStatusOk) {
    HostNamespace ns = p.spaces[0];
    ns.row = NamespaceRow{static_cast<std::uint32_t>(host.effects().answers[0].args[0])};
    const std::uint32_t groups[] = {1, 2, 3, 1, 1};
    for (std::uint64_t first = 100; first < 180; first += 8) {
      host.now += 20 * kNsPerMs;
      host.put(kNewcomer, ns, host_keys(first, 8), groups, host_key(first - 1));
      host.run_background();
    }
    const auto wanted = host_keys(0, 4);
    host.step(event::Remove{kNewcomer, RequestId{951}, ns.row, wanted});
  }
  // Somebody finds wrong bytes and says so.
  const SlotId slot{1 + input.below(Host::kSlots)};
  const segment::SlotRow& row = host.area().slot(slot);
  const segment::SlotFields fields = row.load_fields();
  const MismatchReport report{fields.key, fields.ns.value, slot.value,
                              row.load_word().generation.value, 0};
  host.step(event::ReportMismatch{kNewcomer, RequestId{952}, report});
  host.carry_out();
  if (input.flag())
    host.step(event::Flush{kNewcomer, RequestId{953}, p.spaces[0].row, input.flag()});
  host.run_background();
}

void everybody_leaves(Past& p) {
  Host& host = p.host;
  for (const ClientId client : {kWriter, kReader, kNewcomer}) {
    host.step(event::ClientDied{client, false});
    host.carry_out();
  }
  host.now += kNsPerSecond;
  host.step(event::Tick{});
  host.carry_out();
  host.run_background();
  const NodeGauges gauges = host.node().gauges(host.now);
  CHECK(gauges.prepared_bytes == 0 && gauges.open_puts == 0 && gauges.waiting_puts == 0);
  CHECK(gauges.pinned_groups == 0 && gauges.doomed_slots == 0);
  CHECK(host.node().clients(host.now).empty());
}

}  // namespace

void run_one(std::span<const std::byte> bytes) {
  Past& p = past();
  p.restore();
  Input input(bytes);
  const HostChannel* const channels[] = {&p.writer, &p.reader};
  for (std::size_t i = 0; i < kMostDamage && damage_once(input, p.host, channels); ++i) {
  }
  spare_unused_rows(p.host);
  const bool twins = has_twins(p.host);
  const bool started = p.host.start_warm(handed_over(p));
  if (bytes.empty()) CHECK(started, "memory without damage is taken up");
  if (!started) return;
  if (!twins) p.host.node().validate();
  const std::size_t hits = read_everything(p);
  if (bytes.empty()) CHECK(hits == 7 + 6 + 6 + 3 + 2, "and nothing of it is lost");
  p.host.run_background();
  work_on(p, input);
  if (!twins) p.host.node().validate();
  read_everything(p);
  CHECK(p.host.start_warm({{kWriter, p.writer.view(), "writer"},
                           {kReader, p.reader.view(), "reader"},
                           {kNewcomer, p.newcomer.view(), "newcomer"}}),
        "a node takes up what a node has left");
  if (!twins) p.host.node().validate();
  read_everything(p);
  everybody_leaves(p);
  if (!twins) p.host.node().validate();
}

std::vector<Seed> make_seeds() {
  const auto one = [](const char* name, Damage damage, InputWriter&& rest) {
    InputWriter all;
    all.byte(static_cast<std::uint32_t>(damage)).bytes(rest.take());
    return Seed{name, all.take()};
  };
  const auto w = [] { return InputWriter(); };
  std::vector<Seed> seeds;
  seeds.push_back(one("flip-slot", Damage::kFlip,
                      std::move(w().byte(4).put<std::uint16_t>(64 * 3 + 9).byte(4))));
  seeds.push_back(
      one("flip-index", Damage::kFlip, std::move(w().byte(5).put<std::uint16_t>(100).byte(255))));
  seeds.push_back(one("store-text", Damage::kStore64,
                      std::move(w().byte(3).put<std::uint16_t>(0).put<std::uint64_t>(~0ULL))));
  seeds.push_back(one("copy-row", Damage::kCopyRow, std::move(w().byte(2).byte(90))));
  for (std::uint32_t state = 0; state <= 5; ++state) {
    seeds.push_back(one(("word-state-" + std::to_string(state)).c_str(), Damage::kWord,
                        std::move(w().byte(3).byte(state).byte(state / 4).byte(0))));
  }
  for (std::uint32_t field = 0; field < 10; ++field) {
    for (std::uint32_t again = 0; again < 2; ++again) {
      seeds.push_back(one(
          ("field-" + std::to_string(field) + (again != 0 ? "-summed" : "-torn")).c_str(),
          Damage::kField, std::move(w().byte(10).byte(field).put<std::uint32_t>(5).byte(again))));
    }
  }
  seeds.push_back(one("slab-class", Damage::kSlab, std::move(w().byte(0).put<std::uint16_t>(2))));
  for (std::uint32_t field = 0; field < 5; ++field) {
    seeds.push_back(one(("namespace-" + std::to_string(field)).c_str(), Damage::kNamespace,
                        std::move(w().byte(1).byte(field).put<std::uint32_t>(3))));
  }
  for (std::uint32_t field = 0; field < 6; ++field) {
    seeds.push_back(one(("header-" + std::to_string(field)).c_str(), Damage::kHeader,
                        std::move(w().byte(field).put<std::uint64_t>(0x1'0000'0102ULL))));
  }
  seeds.push_back(one("fixed-geometry", Damage::kFixedField, std::move(w().byte(24).byte(1))));
  seeds.push_back(one("ledger", Damage::kPin, std::move(w().byte(0).byte(5).byte(4).byte(0))));
  seeds.push_back(one("channel-header", Damage::kChannel,
                      std::move(w().byte(1).put<std::uint16_t>(0).put<std::uint64_t>(7))));
  seeds.push_back(
      one("value", Damage::kValue, std::move(w().byte(2).put<std::uint16_t>(8).byte(1))));
  return seeds;
}

}  // namespace orlop::fuzz
