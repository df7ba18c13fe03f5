// SPDX-License-Identifier: Apache-2.0
// The key index: one reader, and the writer that inserts, erases, overflows, grows and punches.
//
// Here the node is reduced to what the index needs: KeyIndexWriter is real, the rows are stored in
// the order of the node machine (Node::prepare_slot, make_readable, free_group).
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>

#include "base/check.h"
#include "explorer.h"
#include "page_world.h"
#include "segment/key_index.h"

namespace orlop::interleaving {
namespace {

using segment::SlotState;

// Fiber 0 looks for keys, fiber 1 writes.
class IndexProgram : public Program {
 public:
  IndexProgram()
      : world_(32),
        writer_start_(world_.area()),
        writer_(writer_start_),
        reader_start_(channel_.view()),
        reader_(reader_start_) {
    const std::array<std::uint32_t, 1> chunk = {0};
    reader_start_.ledger().adopt(chunk);
  }

  unsigned fibers() const override { return 2; }
  std::string name_of(const void* address) const override {
    const std::string name = world_.name_of(address);
    return name.empty() ? channel_.name_of(address) : name;
  }
  void reset() override {
    writer_ = writer_start_;
    reader_ = reader_start_;
    stored_ = stored_start_;
  }
  void run(unsigned fiber) override { fiber == 0 ? read() : write(); }
  void verify() override {
    must_find(kStays);
    for (const auto& [slot, key] : stored_) must_find(key);
    writer_.validate();
  }

 protected:
  virtual void read() { must_find(kStays); }
  virtual void write() = 0;

  // For the constructors: what is there from the beginning. Slots are numbered as they come.
  void start_with(const KeyId& key) {
    put(SlotId{++slots_used_}, key);
    writer_start_ = writer_;
    stored_start_ = stored_;
  }

  void must_find(const KeyId& key) { require(look_for(key), "a key that stays was not found"); }
  // Once its put is answered, and as long as nobody takes it away.
  void must_find_if_answered(SlotId slot, const KeyId& key) {
    if (answered_[slot.value].load(std::memory_order_acquire) != 0) must_find(key);
  }
  bool look_for(const KeyId& key) {
    const bool found = reader_.pin(world_, {&key, 1}) == 1;
    reader_.read_pages(world_, {&key, 1});
    reader_.release();
    return found;
  }

  void put(SlotId slot, const KeyId& key) {
    segment::SlotRow& row = world_.area().slot(slot);
    const segment::SlotWord word = row.load_word(std::memory_order_relaxed);
    CHECK(word.state == SlotState::kFree);
    const Generation next{word.generation.value + 1};
    row.store_fields({key, 4096, kNs, {}, make_put_id(ClientId{1}, slot.value)});
    row.store_word({next, SlotState::kPrepared, 0, 0});
    world_.page(slot).store(bytes_of(key), std::memory_order_relaxed);
    row.store_checksums(bytes_of(key), segment::fields_sum(row.load_fields(), bytes_of(key), next));
    row.store_word({next, SlotState::kLocalReady, 0, 0});
    writer_.insert(key, kNs, slot);
    row.store_word({next, SlotState::kCommitted, 0, 0});
    stored_[slot.value] = key;
    answered_[slot.value].store(1, std::memory_order_release);
  }

  // Never called for a key that the reader may have pinned: there is no scan here.
  void take_away(SlotId slot) {
    stored_.erase(slot.value);
    segment::SlotRow& row = world_.area().slot(slot);
    const segment::SlotWord word = row.load_word(std::memory_order_relaxed);
    row.store_word({word.generation, SlotState::kRetiring, 0, 0});
    CHECK(writer_.erase(row.load_key(), row.load_ns(), slot));
    row.store_word({word.generation, SlotState::kFree, 0, 0});
  }

  void punch() {
    const auto place = writer_.wants_punch();
    if (!place) return;
    segment::IndexBucket* buckets = world_.area().index_place(*place);
    const std::uint64_t count = std::uint64_t{1} << world_.area().geometry().max_index_log2;
    for (std::uint64_t b = 0; b < count; ++b) {
      for (auto& entry : buckets[b].entry) entry.store(0, std::memory_order_relaxed);
      buckets[b].overflowed.store(0, std::memory_order_relaxed);
    }
    segment::full_fence();  // a system call
    writer_.punched(*place);
  }

  static inline const KeyId kStays = key_in_bucket(0, 99);

  PageWorld world_;
  ClientChannel channel_;
  segment::KeyIndexWriter writer_start_, writer_;
  Reader reader_start_, reader_;
  std::uint32_t slots_used_ = 0;
  std::map<std::uint32_t, KeyId> stored_start_, stored_;     // by slot, as far as the writer got
  std::array<segment::Atomic<std::uint64_t>, 33> answered_;  // by slot: the put is over
};

// Bucket 0 is full; the key that stays has overflowed into bucket 1.
class Overflow : public IndexProgram {
 public:
  Overflow() {
    for (std::uint32_t i = 1; i <= segment::kBucketEntries; ++i) start_with(key_in_bucket(0, i));
    start_with(kStays);
    start_with(kPassesBy);
  }

 protected:
  void write() override {
    take_away(SlotId{1});  // room in bucket 0
    put(SlotId{1}, key_in_bucket(0, 50));
    take_away(SlotId{9});        // the counter that kStays needs goes down, not to 0
    put(SlotId{10}, kPassesBy);  // and up again
  }
  static inline const KeyId kPassesBy = key_in_bucket(0, 98);
};

// The bucket is full; one more comes, whose only trace in its home is the counter.
class OneTooMany : public IndexProgram {
 public:
  OneTooMany() {
    start_with(kStays);
    for (std::uint32_t i = 1; i < segment::kBucketEntries; ++i) start_with(key_in_bucket(0, i));
  }

 protected:
  void read() override {
    must_find_if_answered(SlotId{8}, kOneMore);
    must_find(kStays);
    must_find_if_answered(SlotId{8}, kOneMore);
  }
  void write() override { put(SlotId{8}, kOneMore); }
  static inline const KeyId kOneMore = key_in_bucket(0, 77);
};

// The same bucket and tag as the key that stays: only the row tells them apart.
KeyId twin_of(const KeyId& key) {
  return {key.lo, key.hi + (1ULL << 40)};
}

class Twins : public IndexProgram {
 public:
  Twins() {
    start_with(twin_of(kStays));
    start_with(kStays);
  }

 protected:
  void write() override {
    take_away(SlotId{1});
    put(SlotId{1}, key_in_bucket(0, 50));
    put(SlotId{3}, twin_of(kStays));
  }
};

// Two buckets grow to four and to eight, with punches between, while keys come and go.
class Growth : public IndexProgram {
 public:
  explicit Growth(unsigned growths) : growths_(growths) {
    start_with(kGoes);
    start_with(key_in_bucket(1, 2));
    start_with(kStays);
  }

 protected:
  void write() override {
    writer_.ensure_capacity(20);
    writer_.grow_slice(1);
    put(SlotId{4}, key_in_bucket(0, 60));
    take_away(SlotId{1});
    while (writer_.growing()) writer_.grow_slice(1);
    punch();
    if (growths_ < 2) return;
    writer_.ensure_capacity(40);
    while (writer_.growing()) writer_.grow_slice(1);
    put(SlotId{1}, key_in_bucket(0, 61));
    punch();
  }

 private:
  static inline const KeyId kGoes = key_in_bucket(0, 1);
  unsigned growths_;
};

// Reads a key that goes and another that comes into its slot.
class ComesAndGoes : public Growth {
 public:
  ComesAndGoes() : Growth(2) {}

 protected:
  void read() override {
    const std::array<KeyId, 2> keys = {kStays, key_in_bucket(0, 60)};
    std::array<std::uint64_t, 1> present = {};
    segment::probe(world_.area(), keys, kNs, present);
    require((present[0] & 1) != 0, "a key that stays was not found");
    look_for(keys[1]);
  }
};

// The writer dies anywhere, most often in the middle of a growth; the next one builds the index
// anew from the rows while the reader goes on.
class WriterDies : public Growth {
 public:
  explicit WriterDies(unsigned growths) : Growth(growths) {}
  unsigned fibers() const override { return 3; }
  unsigned process_of(unsigned fiber) const override { return fiber == 2 ? 1 : fiber; }
  bool may_be_abandoned(unsigned fiber) const override { return fiber == 1; }
  void reset() override {
    Growth::reset();
    writer_ended_ = false;
    successor_.reset();
  }
  void run(unsigned fiber) override {
    if (fiber == 0) return read();
    if (fiber == 1) {
      write();
      writer_ended_ = true;
      return;
    }
    sleep_until([this] { return writer_ended_ || somebody_was_abandoned(); });
    if (somebody_was_abandoned()) rebuild();
  }
  void verify() override {
    must_find(kStays);
    for (const auto& [slot, key] : stored_) must_find(key);
    one_entry_for_each_slot();
    (successor_ ? *successor_ : writer_).validate();
  }

 private:
  // Recovery::rebuild_index, after its verdict on the rows: what is not whole is Free by then.
  void rebuild() {
    const std::uint32_t slots = world_.slots();
    successor_.emplace(world_.area());
    for (std::uint32_t s = 1; s <= slots; ++s) {
      segment::SlotRow& row = world_.area().slot(SlotId{s});
      const segment::SlotWord word = row.load_word(std::memory_order_relaxed);
      if (word.state == SlotState::kPrepared || word.state == SlotState::kRetiring)
        row.store_word({word.generation, SlotState::kFree, 0, 0});
    }
    successor_->begin_rebuild(slots);
    for (std::uint32_t s = 1; s <= slots; ++s) {
      const segment::SlotRow& row = world_.area().slot(SlotId{s});
      if (row.load_word(std::memory_order_relaxed).readable())
        successor_->insert(row.load_key(), row.load_ns(), SlotId{s});
    }
    successor_->publish_rebuild();
  }
  void one_entry_for_each_slot() {
    const segment::IndexWord word = world_.area().index_word();
    const segment::IndexBucket* buckets = world_.area().index_place(word.place);
    std::map<std::uint32_t, unsigned> entries;
    for (std::uint64_t b = 0; b < std::uint64_t{1} << word.log2; ++b) {
      for (const auto& cell : buckets[b].entry) {
        const auto slot = static_cast<std::uint32_t>(cell.load(std::memory_order_relaxed));
        if (slot != 0) require(++entries[slot] == 1, "an entry of before the rebuild is left");
      }
    }
  }

  bool writer_ended_ = false;
  std::optional<segment::KeyIndexWriter> successor_;
};

TEST(IndexExplorer, Overflow_counters_lose_no_key) {
  Overflow program;
  expect_clean("index: overflow", program);
}

TEST(IndexExplorer, Equal_tags_are_told_apart) {
  Twins program;
  expect_clean("index: equal tags", program);
}

TEST(IndexExplorer, Growth_switch_and_punch_lose_no_key) {
  Growth program(1);
  expect_clean("index: growth", program);
}

TEST(IndexExplorer, Two_growths_stay_within_the_retries) {
  Growth program(2);
  expect_clean("index: two growths", program);
}

TEST(IndexExplorer, Probe_and_pin_during_growth_are_clean) {
  ComesAndGoes program;
  expect_clean("index: probe and pin during growth", program, {.at_least = 40'000});
}

TEST(IndexExplorer, Answered_key_is_found_beside_a_full_bucket) {
  OneTooMany program;
  expect_clean("index: one too many", program);
}

TEST(IndexExplorer, Writer_abandoned_anywhere_then_rebuild_loses_no_key) {
  WriterDies program(1);
  expect_clean("index: writer dies, rebuild", program, {.budget = 2, .at_least = 14'000});
}

TEST(IndexExplorer, Writer_abandoned_in_the_second_growth_loses_no_key) {
  WriterDies program(2);
  expect_clean("index: writer dies in two growths", program,
               {.budget = 1, .random_walks = 20'000, .at_least = 20'000});
}

TEST(IndexExplorer, Index_not_looked_up_again_is_found) {
  Growth program(1);
  expect_found("index: no second look-up", program, PlantedBug::kIndexNotLookedUpAgain);
}

TEST(IndexExplorer, Overflow_not_counted_is_found) {
  OneTooMany program;
  expect_found("index: overflow not counted", program, PlantedBug::kOverflowNotCounted);
}

TEST(IndexExplorer, Growth_that_forgets_new_entries_is_found) {
  Growth program(1);
  expect_found("index: growth forgets new entries", program, PlantedBug::kGrowthForgetsNewEntry);
}

TEST(IndexExplorer, Switch_before_the_copy_is_found) {
  Growth program(1);
  expect_found("index: switched too early", program, PlantedBug::kIndexSwitchedTooEarly);
}

TEST(IndexExplorer, Rebuild_over_old_entries_is_found) {
  WriterDies program(1);
  expect_found("index: rebuilt over old entries", program, PlantedBug::kIndexNotClearedForRebuild);
}

}  // namespace
}  // namespace orlop::interleaving
