// SPDX-License-Identifier: Apache-2.0
// Garbage in the parts of a channel. What can be told to be wrong closes that client and is
// counted; what cannot (ledger, touches: any number may be a slot's) harms nobody else.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "base/rng.h"
#include "raw_client.h"
#include "rows.h"
#include "segment/ledger.h"

namespace orlop::negative_test {
namespace {

using process_test::eventually;
using process_test::RawClient;
using protocol::RequestCode;
using segment::RingMessage;

// A client that goes for good with this object, whatever it wrote: an attach with its nonce says
// that this instance has no channel.
class Hostile {
 public:
  explicit Hostile(World& world) : world_(world) {
    auto attached = RawClient::attach(world.socket());
    EXPECT_TRUE(attached) << attached.error().message;
    raw_ = std::move(*attached);
  }
  ~Hostile() {
    raw_->hang_up();
    auto last = RawClient::attach(world_.socket(), {.nonce = raw_->nonce()});
    EXPECT_TRUE(last) << last.error().message;
    if (last) (*last)->detach();
  }
  RawClient* operator->() { return raw_.get(); }
  RawClient& operator*() { return *raw_; }

 private:
  World& world_;
  std::unique_ptr<RawClient> raw_;
};

double malformed(World& world) {
  return world.daemon().metric("orlop_malformed_clients_total");
}

// Others go on at once, not only when the row is over.
void expect_others_served(World& world) {
  static std::size_t number = 0;
  const Keys keys(4, "others", number += 4);
  EXPECT_TRUE(all_are(world.worker().put(keys), Outcome::kStored));
  world.expect_readable(keys);
}

RingMessage ping_message() {
  RingMessage message;
  message.code = static_cast<std::uint32_t>(RequestCode::kPing);
  message.request_id = 1;
  return message;
}

// These messages, then the doorbell: the client is closed and counted.
Row closed_row(std::string name, std::function<void(segment::ChannelView)> write) {
  return {Item::kHostileChannel,
          std::move(name),
          {},
          {},
          [write = std::move(write)](World& world) -> Result<void> {
            const double before = malformed(world);
            Hostile hostile(world);
            write(hostile->channel());
            hostile->ring_node();
            EXPECT_TRUE(process_test::wait_hang_up(hostile->socket()));
            EXPECT_EQ(malformed(world), before + 1);
            expect_others_served(world);
            return {};
          }};
}
Row message_row(std::string name, std::function<void(RingMessage&)> spoil) {
  return closed_row(std::move(name), [spoil = std::move(spoil)](segment::ChannelView channel) {
    RingMessage message = ping_message();
    spoil(message);
    channel.request_cells()[0] = message;
    channel.header().request_tail.store(1);
  });
}

// Written, and then still served or not: node and others do not care.
Row harmless_row(std::string name, std::function<void(Hostile&)> write) {
  return {Item::kHostileChannel,
          std::move(name),
          {},
          {},
          [write = std::move(write)](World& world) -> Result<void> {
            const auto incarnation = world.daemon().status().incarnation;
            {
              Hostile hostile(world);
              write(hostile);
              hostile->ring_node();
              expect_others_served(world);
            }
            EXPECT_EQ(world.daemon().status().incarnation, incarnation) << "the server died";
            return {};
          }};
}

template <class Words>
void scribble(Words* words, std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  for (std::size_t i = 0; i < count; ++i)
    words[i].store(static_cast<decltype(words[i].load())>(rng.next()));
}

Rows message_rows() {
  using M = RingMessage;
  const auto code = [](M& m, RequestCode c) { m.code = static_cast<std::uint32_t>(c); };
  return {
      message_row("unknown_code", [](M& m) { m.code = 99; }),
      message_row("other_generation", [](M& m) { m.ring_generation = 5; }),
      message_row("body_outside_the_arena", [](M& m) { m.body_offset = 0xffffff00; }),
      message_row("body_beyond_the_arena", [](M& m) { m.body_bytes = 0xffffffff; }),
      message_row("body_misaligned",
                  [](M& m) {
                    m.body_offset = 4;
                    m.body_bytes = 64;
                  }),
      message_row("more_keys_than_a_put_has",
                  [code](M& m) {
                    code(m, RequestCode::kPutStart);
                    m.args[1] = ~std::uint64_t{0};
                  }),
      message_row("more_groups_than_keys",
                  [code](M& m) {
                    code(m, RequestCode::kPutStart);
                    m.args[1] = std::uint64_t{1} << 32;
                    m.args[2] = std::uint64_t{9} << 32;
                  }),
      message_row("commit_without_its_entries",
                  [code](M& m) {
                    code(m, RequestCode::kPutCommit);
                    m.args[1] = 1'000;
                  }),
      message_row("descriptor_without_its_text",
                  [code](M& m) {
                    code(m, RequestCode::kOpenNamespace);
                    m.args[0] = ~std::uint64_t{0};
                  }),
      message_row("remove_of_too_many",
                  [code](M& m) {
                    code(m, RequestCode::kRemove);
                    m.args[1] = ~std::uint64_t{0};
                  }),
      message_row("flush_of_no_row",
                  [code](M& m) {
                    code(m, RequestCode::kFlush);
                    m.args[0] = ~std::uint64_t{0};
                  }),
  };
}

Rows counter_rows() {
  return {
      closed_row("request_tail_beyond_the_ring",
                 [](segment::ChannelView channel) {
                   channel.header().request_tail.store(segment::kRingCells + 1);
                 }),
      closed_row("request_tail_behind",
                 [](segment::ChannelView channel) {
                   channel.header().request_tail.store(~std::uint32_t{0});
                 }),
      closed_row("response_ring_that_looks_full",
                 [](segment::ChannelView channel) {
                   channel.header().response_head.store(1'000);
                   channel.request_cells()[0] = ping_message();
                   channel.header().request_tail.store(1);
                 }),
      closed_row("request_ring_of_noise",
                 [](segment::ChannelView channel) {
                   Rng rng(1);
                   auto* words = reinterpret_cast<std::uint64_t*>(channel.request_cells());
                   for (std::size_t i = 0; i < segment::kRingCells * 8; ++i) words[i] = rng.next();
                   channel.header().request_tail.store(segment::kRingCells);
                 }),
      closed_row("noise_in_every_part",
                 [](segment::ChannelView channel) {
                   Rng rng(2);
                   auto* at = reinterpret_cast<std::uint64_t*>(&channel.header());
                   for (std::uint64_t i = 0; i < channel.geometry().total_bytes / 8; ++i)
                     at[i] = rng.next();
                 }),
  };
}

Rows part_rows() {
  return {
      harmless_row("ledger_of_noise",
                   [](Hostile& h) {
                     const auto channel = h->channel();
                     scribble(channel.bitmap(), channel.bitmap_words(), 3);
                     scribble(channel.cells(),
                              channel.geometry().ledger_chunks * segment::kCellsPerChunk, 4);
                   }),
      harmless_row("bitmap_of_ones",
                   [](Hostile& h) {
                     const auto channel = h->channel();
                     for (std::uint32_t i = 0; i < channel.bitmap_words(); ++i)
                       channel.bitmap()[i].store(~std::uint64_t{0});
                   }),
      harmless_row("touch_ring_of_noise",
                   [](Hostile& h) {
                     const auto channel = h->channel();
                     scribble(channel.touches(), channel.geometry().touch_cells, 5);
                     channel.header().touch_tail.store(0x8000'0000);
                     h->ping();
                   }),
      harmless_row("header_of_another_channel",
                   [](Hostile& h) {
                     auto& header = h->channel().header();
                     header.magic = 1;
                     header.abi = 2;
                     header.client_id = 3;
                     header.sizes.arena_bytes = ~std::uint64_t{0};
                     header.sizes.touch_cells = 1;
                     h->ping();
                   }),
      harmless_row("sleep_flag_that_never_ends",
                   [](Hostile& h) {
                     h->channel().header().client_sleeping.store(~std::uint32_t{0});
                     h->ping();
                   }),
      harmless_row("answers_and_arena_overwritten",
                   [](Hostile& h) {
                     const auto channel = h->channel();
                     Rng rng(6);
                     for (std::byte& byte : channel.arena())
                       byte = static_cast<std::byte>(rng.next());
                     for (std::byte& byte : channel.plans())
                       byte = static_cast<std::byte>(rng.next());
                     h->channel().header().response_tail.store(77);
                   }),
  };
}

// Forged pins in a full pool: evictions go on for the others.
Result<void> evictions_under_noise(World& world) {
  Hostile hostile(world);
  const auto channel = hostile->channel();
  scribble(channel.bitmap(), channel.bitmap_words(), 8);
  scribble(channel.cells(), channel.geometry().ledger_chunks * segment::kCellsPerChunk, 9);
  for (std::size_t round = 0; round < 24; ++round) {
    const Keys keys(64, "noise", round * 64);
    EXPECT_TRUE(all_are(world.worker().put(keys), Outcome::kStored)) << round;
    EXPECT_EQ(world.worker().get(keys).wrong, 0U);
  }
  EXPECT_GT(world.daemon().metric("orlop_slots_evicted_total"), 0);
  return {};
}

// A commit of slots that were never granted, and of somebody else's.
Result<void> commit_of_foreign_slots(World& world) {
  const Keys theirs(1, "foreign");
  auto plan = world.worker().client.put_start(world.worker().ns, theirs);
  EXPECT_EQ(plan->outcome(0), Outcome::kPrepared);
  {
    Hostile hostile(world);
    const NamespaceRow row = hostile->open_namespace(kValueLen);
    protocol::Answer started = hostile->put_start(row, {{5, 5}});
    const std::uint32_t slots =
        hostile->area().geometry().slab_count * hostile->area().geometry().ordinals_per_slab;
    // Every slot there is, with the first generations: ours, the worker's, free ones, none.
    std::vector<protocol::CommitEntry> entries;
    for (std::uint32_t slot = 0; slot < std::min(slots, 4'000U); ++slot)
      entries.push_back({slot + 1, 1, 0});
    hostile->session().commit(started.put, std::move(entries), 4'711);
    hostile->session().pump();
    hostile->ring_node();
    const protocol::Answer answer = hostile->wait_answer(4'711);
    // One of them is really its own.
    const auto own = std::count(answer.outcomes.begin(), answer.outcomes.end(), Outcome::kStored);
    const auto gone = std::count(answer.outcomes.begin(), answer.outcomes.end(), Outcome::kEvicted);
    EXPECT_LE(own, 1);
    EXPECT_EQ(own + gone, static_cast<std::ptrdiff_t>(answer.outcomes.size()));
  }
  EXPECT_TRUE(plan->copy_in(0, page_of(theirs[0])));
  const auto future = world.worker().client.put_commit(*plan);
  EXPECT_TRUE(all_are(future->wait(kPatience).value_or(std::vector<Outcome>{}), Outcome::kStored));
  world.expect_readable(theirs);
  return {};
}

// liborlop itself, when something else in its process writes into its channel: it is closed by the
// node, comes back by itself and works.
Result<void> library_channel_damaged(World& world) {
  Worker victim(Worker::options(world.socket(), "victim"));
  EXPECT_TRUE(victim.usable());
  const Keys keys(4, "damaged");
  EXPECT_TRUE(all_are(victim.put(keys), Outcome::kStored));
  // Of all channels of this process, the newest mapping is at no fixed place: by the client id.
  std::ifstream maps("/proc/self/maps");
  std::vector<segment::ChannelHeader*> headers;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:orlop-channel") != std::string::npos)
      headers.push_back(reinterpret_cast<segment::ChannelHeader*>(std::stoull(line, nullptr, 16)));
  }
  std::erase_if(headers, [](auto* header) { return header->magic != segment::kChannelMagic; });
  EXPECT_GE(headers.size(), 2U);
  if (headers.size() < 2) return {};
  segment::ChannelHeader* const newest = *std::max_element(
      headers.begin(), headers.end(), [](auto* a, auto* b) { return a->client_id < b->client_id; });
  const double before = malformed(world);
  newest->response_head.store(newest->response_head.load() + 10'000);
  (void)victim.client.ping();
  EXPECT_TRUE(eventually([&] { return victim.client.stats().resumes == 1; }, 10));
  EXPECT_EQ(malformed(world), before + 1);
  EXPECT_TRUE(eventually([&] { return victim.client.ping().has_value(); }, 10));
  EXPECT_EQ(victim.get(keys).pages, 4U);
  EXPECT_TRUE(all_are(victim.put(Keys(4, "repaired")), Outcome::kStored));
  return {};
}

// The reporter is wrong: counted, and the page stays.
Result<void> false_report(World& world) {
  const Keys keys(1, "accused");
  world.worker().put(keys);
  const double before = world.daemon().metric("orlop_false_mismatches_total");
  auto handle = world.worker().client.get_start(world.worker().ns, keys);
  auto plan = world.worker().client.get_transfer(*handle);
  EXPECT_TRUE(plan->report_mismatch(0));
  EXPECT_TRUE(world.worker().client.release_views(*plan));
  EXPECT_TRUE(eventually(
      [&] { return world.daemon().metric("orlop_false_mismatches_total") == before + 1; }, 10));
  EXPECT_EQ(world.daemon().metric("orlop_mismatches_confirmed_total"), 0);
  world.expect_readable(keys);
  return {};
}

// Reports about what is not there, many at once.
Result<void> reports_of_nothing(World& world) {
  const double before = world.daemon().metric("orlop_mismatch_reports_total");
  Hostile hostile(world);
  Rng rng(7);
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(hostile->session().report({{rng.next(), rng.next()},
                                           static_cast<std::uint32_t>(rng.next()),
                                           static_cast<std::uint32_t>(rng.next()),
                                           static_cast<std::uint32_t>(rng.next()),
                                           0}));
    hostile->session().pump();
  }
  hostile->ring_node();
  hostile->ping();
  EXPECT_TRUE(eventually(
      [&] { return world.daemon().metric("orlop_mismatch_reports_total") == before + 50; }, 10));
  EXPECT_EQ(world.daemon().metric("orlop_mismatches_confirmed_total"), 0);
  return {};
}

}  // namespace

Rows hostile_rows() {
  using enum Item;
  Rows rows;
  for (auto part : {message_rows(), counter_rows(), part_rows()})
    rows.insert(rows.end(), part.begin(), part.end());
  rows.push_back({kHostileChannel, "commit_of_foreign_slots", {}, {}, commit_of_foreign_slots});
  rows.push_back({kHostileChannel,
                  "evictions_under_noise",
                  {},
                  {},
                  evictions_under_noise,
                  WorldOptions{{"--capacity", "2MiB", "--max-value-len", "64KiB"}}});
  rows.push_back({kHostileChannel, "library_channel_damaged", {}, {}, library_channel_damaged});
  rows.push_back({kFalseMismatch, "false_report", {}, {}, false_report});
  rows.push_back({kFalseMismatch, "reports_of_nothing", {}, {}, reports_of_nothing});
  return rows;
}

}  // namespace orlop::negative_test
