// SPDX-License-Identifier: Apache-2.0
// A client pins a page while the node takes it back: the hazard protocol of segment/pin.h.
#include <gtest/gtest.h>

#include <array>

#include "explorer.h"
#include "node_steps.h"
#include "page_world.h"

namespace orlop::interleaving {
namespace {

enum class Reuse { kNone, kOtherKey, kSameKey };

// Fiber 0 reads key A (after key C that stays, if `batch`); fiber 1 evicts A's slot and gives it to
// the next key. The client may stop anywhere.
class PinAgainstEviction : public Program {
 public:
  explicit PinAgainstEviction(Reuse reuse, bool batch = false)
      : reuse_(reuse),
        reader_start_(channel_.view()),
        node_start_(world_),
        reader_(reader_start_),
        node_(node_start_) {
    if (batch) keys_.push_back(kStays);
    keys_.push_back(kLeaves);
    const std::array<std::uint32_t, 1> chunk = {0};
    reader_start_.ledger().adopt(chunk);
    node_start_.attach(channel_.view());
    node_start_.put({&kStaySlot, 1}, {&kStays, 1});
    node_start_.put({&kSlot, 1}, {&kLeaves, 1});
  }

  unsigned fibers() const override { return 2; }
  bool may_be_abandoned(unsigned fiber) const override { return fiber == 0; }
  std::string name_of(const void* address) const override {
    const std::string name = world_.name_of(address);
    return name.empty() ? channel_.name_of(address) : name;
  }

  void reset() override {
    reader_ = reader_start_;
    node_ = node_start_;
    evicted_ = false;
  }

  void run(unsigned fiber) override {
    if (fiber == 0) {
      reader_.pin(world_, keys_);
      reader_.read_pages(world_, keys_);
      reader_.release();
      return;
    }
    evicted_ = node_.evict({&kSlot, 1});
    if (evicted_ && reuse_ == Reuse::kOtherKey) node_.put({&kSlot, 1}, {&kComes, 1});
    if (evicted_ && reuse_ == Reuse::kSameKey) node_.put({&kSlot, 1}, {&kLeaves, 1});
  }

  void verify() override {
    node_.index().validate();
    if (!somebody_was_abandoned()) {
      for (const std::uint32_t cell : reader_.cells())
        require(channel_.view().cells()[cell].load() == 0, "a cell is left behind");
    }
    // Whatever a dead client holds, its slot is free for others once the client is reclaimed.
    node_.drop_channels();
    require(node_.evict({&kStaySlot, 1}), "not freed");
    if (!evicted_ || reuse_ != Reuse::kNone) require(node_.evict({&kSlot, 1}), "not freed");
  }

 private:
  static constexpr SlotId kStaySlot{1}, kSlot{2};
  static inline const KeyId kLeaves = key_in_bucket(0, 1), kComes = key_in_bucket(0, 2),
                            kStays = key_in_bucket(1, 3);

  Reuse reuse_;
  std::vector<KeyId> keys_;
  PageWorld world_;
  ClientChannel channel_;
  Reader reader_start_;
  NodeSteps node_start_;
  Reader reader_;
  NodeSteps node_;
  bool evicted_ = false;
};

TEST(PinExplorer, Eviction_without_reuse_is_clean) {
  PinAgainstEviction program(Reuse::kNone);
  expect_clean("pin, evict", program);
}

TEST(PinExplorer, Reuse_for_another_key_is_clean) {
  PinAgainstEviction program(Reuse::kOtherKey);
  expect_clean("pin, evict, reuse", program);
}

TEST(PinExplorer, Reuse_for_the_same_key_is_clean) {
  PinAgainstEviction program(Reuse::kSameKey);
  expect_clean("pin, evict, same key again", program);
}

TEST(PinExplorer, Batch_of_two_is_clean) {
  PinAgainstEviction program(Reuse::kOtherKey, true);
  expect_clean("pin two, evict, reuse", program);
}

TEST(PinExplorer, Identity_not_rechecked_is_found) {
  PinAgainstEviction program(Reuse::kOtherKey);
  expect_found("identity not rechecked", program, PlantedBug::kIdentityNotRechecked);
}

TEST(PinExplorer, Fence_missing_is_found) {
  PinAgainstEviction program(Reuse::kOtherKey);
  expect_found("fence missing", program, PlantedBug::kFenceMissing);
}

TEST(PinExplorer, Free_without_scan_is_found) {
  PinAgainstEviction program(Reuse::kOtherKey);
  expect_found("free without scan", program, PlantedBug::kFreeWithoutScan);
}

}  // namespace
}  // namespace orlop::interleaving
