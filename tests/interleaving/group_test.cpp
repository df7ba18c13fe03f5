// SPDX-License-Identifier: Apache-2.0
// A group of two pages: readers, eviction, a node that dies between any two of its stores, and the
// server after it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "explorer.h"
#include "node_process.h"
#include "page_world.h"

namespace orlop::interleaving {
namespace {

// The segment holds one group of two and is full. The node puts another group of two in its place.
class Group : public Program {
 public:
  struct Shape {
    unsigned readers = 1;
    bool node_may_die = false;  // then a fiber more: the next server
    bool reader_keeps_pins = false;
    bool writer_dies_with_node = false;
  };

  explicit Group(const Shape& shape) : shape_(shape), world_(2), node_(world_) {
    const std::array<std::uint32_t, 1> chunk = {0};
    for (unsigned i = 0; i < shape.readers + 1; ++i) {
      channels_.push_back(std::make_unique<ClientChannel>());
      readers_start_.emplace_back(channels_[i]->view());
      readers_start_[i].ledger().adopt(chunk);
      node_.attach(channels_[i]->view());
    }
    node_.cold_start();
    CHECK(node_.put(kOld));
  }

  unsigned fibers() const override { return shape_.readers + 1 + (shape_.node_may_die ? 1 : 0); }
  unsigned process_of(unsigned fiber) const override { return std::min(fiber, shape_.readers); }
  bool may_be_abandoned(unsigned fiber) const override {
    return shape_.node_may_die && fiber == shape_.readers;
  }
  std::string name_of(const void* address) const override {
    std::string name = world_.name_of(address);
    for (std::size_t i = 0; name.empty() && i < channels_.size(); ++i) {
      name = channels_[i]->name_of(address);
      if (!name.empty()) name = "client " + std::to_string(i) + " " + name;
    }
    return name;
  }

  void reset() override {
    readers_ = readers_start_;
    node_.restart();
    acts_ = 0;
    acting_ = node_ended_ = false;
  }

  void run(unsigned fiber) override {
    if (fiber < shape_.readers) return read(readers_[fiber]);
    if (fiber == shape_.readers) {
      begin_act();
      node_.put(kNew);
      end_act();
      node_ended_ = true;
      return;
    }
    sleep_until([this] { return somebody_was_abandoned() || node_ended_; });
    if (!somebody_was_abandoned()) return;
    begin_act();
    if (shape_.writer_dies_with_node) {
      node_.succeed_without_writer();
    } else {
      node_.succeed();
    }
    end_act();
  }

  void verify() override {
    whole_groups_are_here();
    nothing_is_prepared();
    node_.machine().validate();
    for (unsigned i = 0; i < shape_.readers && shape_.reader_keeps_pins; ++i) {
      readers_[i].read_pages(world_, kOld);
      readers_[i].release();
    }
    node_.idle();
    require(node_.put(kLast), "a slot is never freed");
    node_.machine().validate();
  }

 private:
  // liborlop rounds a prefix down to whole groups (client/arguments.h, whole_groups); so what a
  // race leaves of a group is not used. But a table that stands still never shows half a group.
  void read(Reader& reader) {
    const std::uint64_t before = acts_;
    const bool still = standing_still();
    const std::uint32_t prefix = reader.pin(world_, kOld);
    if (still && standing_still() && acts_ == before) require(prefix != 1, "half a group is here");
    reader.read_pages(world_, kOld);
    if (!shape_.reader_keeps_pins) reader.release();
  }

  void whole_groups_are_here() {
    Reader& reader = readers_.back();
    for (const auto& keys : {kOld, kNew}) {
      std::array<std::uint64_t, 1> present = {};
      segment::probe(world_.area(), keys, kNs, present);
      require(present[0] == 0 || present[0] == 3, "half a group is left");
      require(reader.pin(world_, keys) != 1, "half a group is pinned");
      reader.read_pages(world_, keys);
      reader.release();
    }
  }

  // The put is over, or its writer came back holding nothing, or is gone.
  void nothing_is_prepared() {
    for (std::uint32_t s = 1; s <= world_.slots(); ++s)
      require(world_.area().slot(SlotId{s}).load_word().state != segment::SlotState::kPrepared,
              "a slot stays Prepared for nobody");
  }

  void begin_act() {
    ++acts_;
    acting_ = true;
  }
  void end_act() {
    ++acts_;
    acting_ = false;
  }
  // No node is between two stores, or it is and will stay there.
  bool standing_still() const { return !acting_ || (acts_ == 1 && somebody_was_abandoned()); }

  static inline const std::array<KeyId, 2> kOld = {key_in_bucket(0, 1), key_in_bucket(1, 2)};
  static inline const std::array<KeyId, 2> kNew = {key_in_bucket(0, 3), key_in_bucket(1, 4)};
  static inline const std::array<KeyId, 2> kLast = {key_in_bucket(0, 5), key_in_bucket(1, 6)};

  Shape shape_;
  PageWorld world_;
  std::vector<std::unique_ptr<ClientChannel>> channels_;
  NodeProcess node_;
  std::vector<Reader> readers_start_;  // the last one is for verify()
  std::vector<Reader> readers_;
  std::uint64_t acts_ = 0;  // begins and ends of what a node does
  bool acting_ = false;
  bool node_ended_ = false;
};

TEST(GroupExplorer, Two_readers_and_eviction_are_clean) {
  Group program({.readers = 2});
  expect_clean("group: two readers, evict, put another", program,
               {.budget = 2, .at_least = 20'000});
}

TEST(GroupExplorer, Node_abandoned_anywhere_then_recovery_is_clean) {
  Group program({.readers = 1, .node_may_die = true});
  expect_clean("group: reader, node dies, next server", program, {.budget = 2, .at_least = 25'000});
}

TEST(GroupExplorer, Pins_outlive_a_node_abandoned_anywhere) {
  Group program({.readers = 1, .node_may_die = true, .reader_keeps_pins = true});
  expect_clean("group: pins kept, node dies, next server", program,
               {.budget = 2, .at_least = 20'000});
}

TEST(GroupExplorer, Two_readers_and_a_dying_node_are_clean) {
  Group program({.readers = 2, .node_may_die = true, .reader_keeps_pins = true});
  expect_clean("group: two readers, node dies, next server", program,
               {.budget = 1, .random_walks = 20'000, .at_least = 27'000});
}

TEST(GroupExplorer, Node_and_writer_abandoned_anywhere_leave_nothing_prepared) {
  Group program({.readers = 1, .node_may_die = true, .writer_dies_with_node = true});
  expect_clean("group: node and writer die, next server", program, {.budget = 1});
}

TEST(GroupExplorer, Prepared_of_dead_owner_kept_is_found) {
  Group program({.readers = 1, .node_may_die = true, .writer_dies_with_node = true});
  expect_found("prepared of dead owner kept", program, PlantedBug::kPreparedOfDeadOwnerKept);
}

TEST(GroupExplorer, Half_group_restored_is_found) {
  Group program({.readers = 1, .reader_keeps_pins = true});
  expect_found("half group restored", program, PlantedBug::kHalfGroupRestored);
}

TEST(GroupExplorer, Recovery_by_slot_is_found) {
  Group program({.readers = 1, .node_may_die = true});
  expect_found("recovery by slot", program, PlantedBug::kRecoveryBySlot);
}

}  // namespace
}  // namespace orlop::interleaving
