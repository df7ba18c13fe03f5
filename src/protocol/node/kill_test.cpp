// SPDX-License-Identifier: Apache-2.0
// The server dies between any two of its stores; and the next one dies between any two stores of
// its recovery. Runs on the simulation variant: every store of shared memory goes through a hook
// that counts and, at the chosen one, abandons the node.
//
// Oracle after each kill: a writer's group is readable whole or not at all once its owner has
// spoken; what was committed before and not touched is still there; what was removed or flushed,
// and answered, never comes back; when all is resolved nothing is Prepared or Retiring.
#include <functional>

#include "base/planted.h"
#include "protocol/node/node_fixture.h"

namespace orlop::protocol {
namespace {

using segment::SlotState;

struct Killed {};

class KillingHooks final : public segment::AtomicHooks {
 public:
  explicit KillingHooks(std::uint64_t stores) : left_(stores) { segment::g_atomic_hooks = this; }
  ~KillingHooks() override { segment::g_atomic_hooks = nullptr; }
  std::uint64_t load(const void* address, unsigned bytes) override {
    std::uint64_t value = 0;
    std::memcpy(&value, address, bytes);
    return value;
  }
  void store(void* address, unsigned bytes, std::uint64_t value) override {
    count();
    std::memcpy(address, &value, bytes);
  }
  void before_rmw(void*, unsigned) override { count(); }
  void fence() override {}

 private:
  void count() {
    if (left_ == 0) throw Killed{};
    --left_;
  }
  std::uint64_t left_;
};

// What was put before the kill.
struct Story {
  std::vector<NodeWorld::Started> stored;  // groups of three, committed before
  std::vector<NodeWorld::Started> open;    // groups of three, posted or not
};

class KillTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kGroup = 3;

  static NodeWorld::Options small() {
    NodeWorld::Options options;
    options.capacity = 32 * 8 * kKiB;  // 64 slots of 4 KiB
    options.max_value_len = 8 * kKiB;
    options.config.prepared_cap_bytes = options.config.max_pinned_bytes = options.capacity;
    options.config.min_evict_groups = 2;
    return options;
  }
  static std::vector<KeyId> group_keys(std::uint64_t number) {
    return keys(number * kGroup, kGroup);
  }
  static constexpr char kClient[] = "a";

  // Runs `act` again and again, killed at each of its stores in turn; then `check`.
  void kill_everywhere(
      const std::function<Story(NodeWorld&, ClientId, NamespaceRow)>& prepare,
      const std::function<void(NodeWorld&, ClientId, NamespaceRow, Story&)>& act,
      const std::function<void(NodeWorld&, ClientId, NamespaceRow, Story&, bool)>& check) {
    bool finished = false;
    for (std::uint64_t stores = 0; !finished; ++stores) {
      ASSERT_LT(stores, 20'000u);
      SCOPED_TRACE("killed before store " + std::to_string(stores));
      NodeWorld world(small());
      const ClientId client = world.attach(kClient);
      const NamespaceRow row = world.open(client);
      Story story = prepare(world, client, row);
      {
        KillingHooks hooks(stores);
        try {
          act(world, client, row, story);
          finished = true;
        } catch (const Killed&) {
          world.abandon();
        }
      }
      expect_no_half_entered(world, story);  // local plans go on while no server lives
      recover_under_kills(world, story, stores);
      check(world, client, row, story, finished);
      if (::testing::Test::HasFailure()) return;
    }
  }

  // The new server dies a few times on its way (at stores that differ from round to round), then
  // one comes through.
  void recover_under_kills(NodeWorld& world, const Story& story, std::uint64_t salt) {
    for (std::uint64_t attempt = 0; attempt < 3; ++attempt) {
      KillingHooks hooks((salt * 7 + attempt * 13) % 41);
      try {
        world.restart(false);
        break;
      } catch (const Killed&) {
        world.abandon();
      }
      expect_no_half_entered(world, story);
    }
    world.restart();
    expect_no_half_entered(world, story);
  }

  // A prefix reader that finds the first member of a group finds all of them.
  static void expect_no_half_entered(NodeWorld& world, const Story& story) {
    for (const auto* list : {&story.stored, &story.open}) {
      for (const auto& started : *list) {
        const auto readable = [&world](const SlotGrant& grant) {
          const auto word = world.word(SlotId{grant.slot});
          return word.readable() && word.generation.value == grant.generation;
        };
        if (!readable(started.grants[0])) continue;
        for (const SlotGrant& grant : started.grants) EXPECT_TRUE(readable(grant));
      }
    }
  }

  // Whole or not at all. Returns whether it is there.
  static bool whole(NodeWorld& world, NamespaceRow row, const NodeWorld::Started& started) {
    std::size_t found = 0;
    for (const SlotGrant& grant : started.grants) {
      const auto& slot = world.area().slot(SlotId{grant.slot});
      const auto word = slot.load_word();
      if (word.readable() && word.generation.value == grant.generation &&
          world.find(row, slot.load_key()).value == grant.slot)
        ++found;
    }
    EXPECT_TRUE(found == 0 || found == started.grants.size())
        << found << " of " << started.grants.size();
    return found > 0;
  }

  // The owner speaks: holds every open put, posts its commits again, then all background work.
  static void resolve(NodeWorld& world, ClientId client, Story& story,
                      std::vector<bool>* committed) {
    std::vector<PutId> held;
    for (const auto& open : story.open) held.push_back(open.put);
    world.step(event::ClientResumed{client, held});
    world.node().validate();
    for (const auto& open : story.open) {
      const auto outcomes = world.commit(client, open);
      committed->push_back(outcomes == times(kGroup, Outcome::kStored));
      for (const Outcome outcome : outcomes) EXPECT_EQ(outcome, outcomes[0]);
      world.node().validate();
    }
    world.background();
    world.node().validate();
    EXPECT_EQ(world.in_state(SlotState::kPrepared), 0u);
    EXPECT_EQ(world.in_state(SlotState::kLocalReady), 0u);
    EXPECT_EQ(world.in_state(SlotState::kRetiring), 0u);
  }

  static Story fill(NodeWorld& world, ClientId client, NamespaceRow row, std::uint64_t groups) {
    Story story;
    for (std::uint64_t g = 0; g < groups; ++g)
      story.stored.push_back(world.put(client, row, group_keys(g), {.groups = {kGroup}}));
    return story;
  }
};

TEST_F(KillTest, Put_start) {
  kill_everywhere([](NodeWorld& w, ClientId c, NamespaceRow r) { return fill(w, c, r, 2); },
                  [](NodeWorld& w, ClientId c, NamespaceRow r, Story&) {
                    w.put_start(c, r, group_keys(50), {.groups = {kGroup}});
                  },
                  [](NodeWorld& w, ClientId c, NamespaceRow r, Story& story, bool) {
                    // The answer was never consumed: the client does not hold the put.
                    std::vector<bool> none;
                    resolve(w, c, story, &none);
                    for (const auto& stored : story.stored) EXPECT_TRUE(whole(w, r, stored));
                    w.put(c, r, group_keys(50), {.groups = {kGroup}});
                  });
}

TEST_F(KillTest, Commit) {
  kill_everywhere(
      [](NodeWorld& w, ClientId c, NamespaceRow r) {
        Story story = fill(w, c, r, 2);
        story.open.push_back(w.put_start(c, r, group_keys(50), {.groups = {kGroup}}));
        story.open.push_back(w.put_start(c, r, group_keys(51), {.groups = {kGroup}}));
        return story;
      },
      [](NodeWorld& w, ClientId c, NamespaceRow, Story& story) { w.commit(c, story.open[0]); },
      [](NodeWorld& w, ClientId c, NamespaceRow r, Story& story, bool) {
        std::vector<bool> committed;
        resolve(w, c, story, &committed);
        EXPECT_TRUE(committed[0] && committed[1]) << "a posted commit is never lost";
        for (const auto& open : story.open) EXPECT_TRUE(whole(w, r, open));
        for (const auto& stored : story.stored) EXPECT_TRUE(whole(w, r, stored));
      });
}

TEST_F(KillTest, Commit_whose_owner_never_comes_back) {
  kill_everywhere(
      [](NodeWorld& w, ClientId c, NamespaceRow r) {
        Story story;
        story.open.push_back(w.put_start(c, r, group_keys(50), {.groups = {kGroup}}));
        return story;
      },
      [](NodeWorld& w, ClientId c, NamespaceRow, Story& story) { w.commit(c, story.open[0]); },
      [](NodeWorld& w, ClientId c, NamespaceRow r, Story& story, bool finished) {
        w.step(event::ClientDied{c, false});
        const bool there = whole(w, r, story.open[0]);
        EXPECT_TRUE(there || !finished);
        w.background();
        EXPECT_EQ(w.in_state(SlotState::kPrepared) + w.in_state(SlotState::kRetiring), 0u);
      });
}

TEST_F(KillTest, Abort) {
  kill_everywhere(
      [](NodeWorld& w, ClientId c, NamespaceRow r) {
        Story story = fill(w, c, r, 2);
        story.open.push_back(w.put_start(c, r, group_keys(50), {.groups = {kGroup}}));
        return story;
      },
      [](NodeWorld& w, ClientId c, NamespaceRow, Story& story) { w.abort(c, story.open[0].put); },
      [](NodeWorld& w, ClientId c, NamespaceRow r, Story& story, bool) {
        story.open.clear();
        std::vector<bool> none;
        resolve(w, c, story, &none);
        for (const auto& stored : story.stored) EXPECT_TRUE(whole(w, r, stored));
      });
}

// 21 groups fill 63 of 64 slots; the put takes the oldest two but one that is pinned.
TEST_F(KillTest, Eviction_with_a_pinned_group) {
  kill_everywhere(
      [](NodeWorld& w, ClientId c, NamespaceRow r) {
        Story story = fill(w, c, r, 21);
        w.pin(c, SlotId{story.stored[0].grants[1].slot});
        return story;
      },
      [](NodeWorld& w, ClientId c, NamespaceRow r, Story&) {
        w.put_start(c, r, group_keys(50), {.groups = {kGroup}});
      },
      [](NodeWorld& w, ClientId c, NamespaceRow r, Story& story, bool) {
        std::vector<bool> none;
        resolve(w, c, story, &none);
        EXPECT_TRUE(whole(w, r, story.stored[0])) << "a pinned group stays";
        std::size_t gone = 0;
        for (const auto& stored : story.stored) gone += whole(w, r, stored) ? 0 : 1;
        EXPECT_LE(gone, 2u) << "only victims may leave";
        w.put(c, r, group_keys(51), {.groups = {kGroup}});
      });
}

TEST_F(KillTest, Remove) {
  kill_everywhere(
      [](NodeWorld& w, ClientId c, NamespaceRow r) { return fill(w, c, r, 4); },
      [](NodeWorld& w, ClientId c, NamespaceRow r, Story&) {
        const std::vector<KeyId> gone = {group_keys(1)[1], group_keys(2)[0]};
        w.step(event::Remove{c, w.next_request(), r, gone});
        while (w.node().wants_background()) {
          w.effects().clear();
          w.node().run_background(w.now, w.effects());
          for (const PunchIndexPlace& p : std::vector(w.effects().punch))
            w.node().index_place_punched(p.place);
        }
      },
      [](NodeWorld& w, ClientId c, NamespaceRow r, Story& story, bool finished) {
        std::vector<bool> none;
        resolve(w, c, story, &none);
        EXPECT_TRUE(whole(w, r, story.stored[0]));
        EXPECT_TRUE(whole(w, r, story.stored[3]));
        const bool first = whole(w, r, story.stored[1]), second = whole(w, r, story.stored[2]);
        EXPECT_FALSE(finished && (first || second)) << "removed and answered: never back";
      });
}

TEST_F(KillTest, Flush) {
  kill_everywhere(
      [](NodeWorld& w, ClientId c, NamespaceRow r) {
        Story story = fill(w, c, r, 4);
        story.open.push_back(w.put_start(c, r, group_keys(50), {.groups = {kGroup}}));
        return story;
      },
      [](NodeWorld& w, ClientId c, NamespaceRow r, Story&) {
        w.step(event::Flush{c, w.next_request(), r, false});
        while (w.node().wants_background()) {
          w.effects().clear();
          w.node().run_background(w.now, w.effects());
          for (const PunchIndexPlace& p : std::vector(w.effects().punch))
            w.node().index_place_punched(p.place);
        }
      },
      [](NodeWorld& w, ClientId c, NamespaceRow r, Story& story, bool finished) {
        std::vector<bool> committed;
        resolve(w, c, story, &committed);
        std::size_t there = 0;
        for (const auto& stored : story.stored) there += whole(w, r, stored) ? 1 : 0;
        EXPECT_TRUE(there == 0 || there == 4) << "one store flushes";
        EXPECT_FALSE(finished && there > 0);
        EXPECT_EQ(committed[0], there == 4);
      });
}

TEST_F(KillTest, Slab_stolen_by_another_class) {
  kill_everywhere(
      [](NodeWorld& w, ClientId c, NamespaceRow r) {
        Story story = fill(w, c, r, 21);
        w.open(c, 8'192, "large");
        return story;
      },
      [](NodeWorld& w, ClientId c, NamespaceRow r, Story&) {
        w.put_start(c, NamespaceRow{r.value + 1}, keys(900, 1));
      },
      [](NodeWorld& w, ClientId c, NamespaceRow r, Story& story, bool) {
        std::vector<bool> none;
        resolve(w, c, story, &none);
        std::size_t gone = 0;
        for (const auto& stored : story.stored) gone += whole(w, r, stored) ? 0 : 1;
        EXPECT_LE(gone, 2u);
        w.put(c, NamespaceRow{r.value + 1}, keys(901, 1));
      });
}

// ---- planted bugs: each must show ----

class PlantedTest : public KillTest {
 protected:
  void TearDown() override { g_planted_bug = PlantedBug::kNone; }
};

TEST_F(PlantedTest, Free_without_scan_takes_a_pinned_page) {
  NodeWorld world(small());
  const ClientId c = world.attach();
  const NamespaceRow r = world.open(c);
  const Story story = fill(world, c, r, 21);
  world.pin(c, SlotId{story.stored[0].grants[1].slot});
  g_planted_bug = PlantedBug::kFreeWithoutScan;
  world.put(c, r, group_keys(50), {.groups = {kGroup}});
  EXPECT_FALSE(whole(world, r, story.stored[0]));
}

TEST_F(PlantedTest, Fence_missing_is_not_called) {
  struct Counting final : segment::AtomicHooks {
    std::uint64_t fences = 0;
    Counting() { segment::g_atomic_hooks = this; }
    ~Counting() override { segment::g_atomic_hooks = nullptr; }
    std::uint64_t load(const void* address, unsigned bytes) override {
      std::uint64_t value = 0;
      std::memcpy(&value, address, bytes);
      return value;
    }
    void store(void* address, unsigned bytes, std::uint64_t value) override {
      std::memcpy(address, &value, bytes);
    }
    void before_rmw(void*, unsigned) override {}
    void fence() override { ++fences; }
  };
  NodeWorld world(small());
  const ClientId c = world.attach();
  const NamespaceRow r = world.open(c);
  fill(world, c, r, 21);
  Counting counting;
  world.put(c, r, group_keys(50), {.groups = {kGroup}});
  EXPECT_EQ(counting.fences, 1u);
  g_planted_bug = PlantedBug::kFenceMissing;
  world.put(c, r, group_keys(51), {.groups = {kGroup}});
  EXPECT_EQ(counting.fences, 1u);
}

TEST_F(PlantedTest, Pinned_groups_never_given_back_stay_marked) {
  NodeWorld world(small());
  const ClientId c = world.attach();
  const NamespaceRow r = world.open(c);
  const Story story = fill(world, c, r, 21);
  const auto cell = world.pin(c, SlotId{story.stored[0].grants[1].slot});
  g_planted_bug = PlantedBug::kPinnedGroupsNeverGivenBack;
  world.put(c, r, group_keys(50), {.groups = {kGroup}});
  world.unpin(c, cell);
  for (int i = 0; i < 5; ++i) {
    world.now = world.node().next_deadline();
    world.tick();
  }
  EXPECT_EQ(world.node().gauges(world.now).pinned_groups, 1u);
}

TEST_F(PlantedTest, Prepared_of_a_lost_answer_leaks) {
  NodeWorld world(small());
  const ClientId c = world.attach();
  const NamespaceRow r = world.open(c);
  world.put_start(c, r, group_keys(1));
  g_planted_bug = PlantedBug::kPreparedOfLostAnswerLeaked;
  world.step(event::ClientResumed{c, {}});
  EXPECT_EQ(world.in_state(SlotState::kPrepared), kGroup);
}

TEST_F(PlantedTest, Prepared_is_freed_under_its_writer) {
  NodeWorld world(small());
  const ClientId c = world.attach();
  const NamespaceRow r = world.open(c);
  world.put_start(c, r, group_keys(1));
  g_planted_bug = PlantedBug::kPreparedFreedUnderWriter;
  world.restart();
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 0u);
}

TEST_F(PlantedTest, Recovery_by_slot_offers_half_a_group) {
  NodeWorld world(small());
  const ClientId c = world.attach();
  const NamespaceRow r = world.open(c);
  const auto started = world.put(c, r, group_keys(1), {.groups = {kGroup}});
  auto& row = world.area().slot(SlotId{started.grants[0].slot});
  auto word = row.load_word();
  word.state = SlotState::kFree;
  row.store_word(word);
  g_planted_bug = PlantedBug::kRecoveryBySlot;
  world.restart(false);
  EXPECT_EQ(world.found(r, group_keys(1)), 2u);
  world.abandon();  // validate() would find it
}

TEST_F(PlantedTest, Removed_group_is_resurrected) {
  NodeWorld world(small());
  const ClientId c = world.attach();
  const NamespaceRow r = world.open(c);
  const auto started = world.put(c, r, group_keys(1), {.groups = {kGroup}});
  world.pin(c, SlotId{started.grants[0].slot});
  const auto gone = group_keys(1);
  world.step(event::Remove{c, world.next_request(), r, gone});
  g_planted_bug = PlantedBug::kRemovedGroupResurrected;
  world.restart();
  EXPECT_EQ(world.found(r, group_keys(1)), kGroup);
}

}  // namespace
}  // namespace orlop::protocol
