// SPDX-License-Identifier: Apache-2.0
// A client pins a page while the node takes it back: the hazard protocol of segment/pin.h against
// the node machine's eviction.
#include <gtest/gtest.h>

#include <array>

#include "explorer.h"
#include "node_process.h"
#include "page_world.h"

namespace orlop::interleaving {
namespace {

enum class Then { kLeaveFree, kPutAnother, kPutSame, kPutSameThenAnother };

// The segment is full. Fiber 0 reads; fiber 1 makes room for a put, evicting what is read, and
// gives the slot away. The client may stop anywhere.
class PinAgainstEviction : public Program {
 public:
  explicit PinAgainstEviction(Then then, std::uint32_t pages = 1)
      : then_(then),
        world_(pages),
        node_(world_),
        reader_start_(channel_.view()),
        reader_(reader_start_) {
    const std::array<std::uint32_t, 1> chunk = {0};
    reader_start_.ledger().adopt(chunk);
    node_.attach(channel_.view());
    node_.cold_start();
    for (std::uint32_t i = 0; i < pages; ++i) {
      keys_.push_back(key_in_bucket(0, i + 1));
      CHECK(node_.put({&keys_.back(), 1}));
    }
  }

  unsigned fibers() const override { return 2; }
  bool may_be_abandoned(unsigned fiber) const override { return fiber == 0; }
  std::string name_of(const void* address) const override {
    const std::string name = world_.name_of(address);
    return name.empty() ? channel_.name_of(address) : name;
  }

  void reset() override {
    reader_ = reader_start_;
    node_.restart();
  }

  void run(unsigned fiber) override {
    if (fiber == 0) {
      reader_.pin(world_, keys_);
      reader_.read_pages(world_, keys_);
      reader_.release();
      return;
    }
    const KeyId other = key_in_bucket(0, 100);
    if (then_ == Then::kPutAnother) {
      node_.put({&other, 1});
    } else if (node_.make_room({&other, 1}) && then_ != Then::kLeaveFree) {
      node_.put({keys_.data(), 1});
      if (then_ == Then::kPutSameThenAnother) node_.put({&other, 1});
    }
  }

  void verify() override {
    node_.machine().validate();
    if (!somebody_was_abandoned()) {
      for (const std::uint32_t cell : reader_.cells())
        require(channel_.view().cells()[cell].load() == 0, "a cell is left behind");
    }
    // Whatever a dead client holds is free for others once the client is reclaimed.
    node_.bury_readers();
    node_.idle();
    std::vector<KeyId> others;
    for (std::uint32_t i = 0; i < world_.slots(); ++i) others.push_back(key_in_bucket(1, 200 + i));
    require(node_.put(others), "a slot is never freed");
    node_.machine().validate();
  }

 private:
  Then then_;
  std::vector<KeyId> keys_;
  PageWorld world_;
  ClientChannel channel_;
  NodeProcess node_;
  Reader reader_start_;
  Reader reader_;
};

TEST(PinExplorer, Eviction_without_reuse_is_clean) {
  PinAgainstEviction program(Then::kLeaveFree);
  expect_clean("pin, evict", program, {.budget = 4});
}

TEST(PinExplorer, Reuse_for_another_key_is_clean) {
  PinAgainstEviction program(Then::kPutAnother);
  expect_clean("pin, evict, put another", program, {.budget = 4, .at_least = 8'000});
}

TEST(PinExplorer, Reuse_for_the_same_key_is_clean) {
  PinAgainstEviction program(Then::kPutSame);
  expect_clean("pin, evict, put the same", program);
}

TEST(PinExplorer, Reuse_for_the_same_key_and_then_another_is_clean) {
  PinAgainstEviction program(Then::kPutSameThenAnother);
  expect_clean("pin, evict, put the same, evict, put another", program, {.budget = 2});
}

TEST(PinExplorer, Batch_of_two_is_clean) {
  PinAgainstEviction program(Then::kPutAnother, 2);
  expect_clean("pin two, evict one, put another", program, {.at_least = 18'000});
}

TEST(PinExplorer, Identity_not_rechecked_is_found) {
  PinAgainstEviction program(Then::kPutAnother);
  expect_found("identity not rechecked", program, PlantedBug::kIdentityNotRechecked);
}

TEST(PinExplorer, Generation_not_compared_is_found) {
  PinAgainstEviction program(Then::kPutSameThenAnother);
  expect_found("generation not compared", program, PlantedBug::kGenerationNotCompared);
}

TEST(PinExplorer, Free_page_pinned_is_found) {
  PinAgainstEviction program(Then::kLeaveFree);
  expect_found("free page pinned", program, PlantedBug::kFreePagePinned);
}

TEST(PinExplorer, Fence_missing_is_found) {
  PinAgainstEviction program(Then::kPutAnother);
  expect_found("fence missing", program, PlantedBug::kFenceMissing);
}

TEST(PinExplorer, Free_without_scan_is_found) {
  PinAgainstEviction program(Then::kPutAnother);
  expect_found("free without scan", program, PlantedBug::kFreeWithoutScan);
}

}  // namespace
}  // namespace orlop::interleaving
