// SPDX-License-Identifier: Apache-2.0
// The chunk bit of a ledger: its owner gives the chunk up and takes it again, another thread ends
// pins in it, and the node scans.
#include <gtest/gtest.h>

#include <array>

#include "explorer.h"
#include "node_process.h"
#include "page_world.h"

namespace orlop::interleaving {
namespace {

// Two threads of one client, and the node that evicts the one page there is. A pin is in cell 0.
class ChunkBit : public Program {
 public:
  ChunkBit() : world_(1), node_(world_), owner_start_(channel_.view()), owner_(owner_start_) {
    const std::array<std::uint32_t, 1> chunk = {0};
    owner_start_.ledger().adopt(chunk);
    node_.attach(channel_.view());
    node_.cold_start();
    CHECK(node_.put(kPage));
    CHECK(owner_start_.pin(world_, kPage) == 1);
    first_cells_ = owner_start_.cells();
  }

  unsigned fibers() const override { return 3; }
  std::string name_of(const void* address) const override {
    const std::string name = world_.name_of(address);
    return name.empty() ? channel_.name_of(address) : name;
  }
  void reset() override {
    owner_ = owner_start_;
    node_.restart();
  }

  void run(unsigned fiber) override {
    if (fiber == 0) run_owner();
    if (fiber == 1) segment::release_cells(channel_.view(), first_cells_);
    if (fiber == 2) node_.put(kOther);
  }

  void verify() override {
    node_.machine().validate();
    for (std::uint32_t cell = 0; cell < segment::kCellsPerChunk; ++cell)
      require(channel_.view().cells()[cell].load() == 0, "a cell is left behind");
    node_.idle();
    require(node_.put(kLast), "the slot is never freed");
  }

 protected:
  virtual void run_owner() {
    std::vector<std::uint32_t> free;
    owner_.ledger().reclaim(0, free);
    owner_.ledger().adopt(free);
    pin_and_read(owner_);
  }
  void pin_and_read(Reader& reader) {
    if (reader.pin(world_, kPage) == 1) {
      require((channel_.view().bitmap()[0].load(std::memory_order_relaxed) & 1) != 0,
              "a pin in a chunk whose bit is clear");
      reader.read_pages(world_, kPage);
    }
    reader.release();
  }

  static inline const std::array<KeyId, 1> kPage = {key_in_bucket(0, 1)};
  static inline const std::array<KeyId, 1> kOther = {key_in_bucket(0, 2)};
  static inline const std::array<KeyId, 1> kLast = {key_in_bucket(0, 3)};

  PageWorld world_;
  ClientChannel channel_;
  NodeProcess node_;
  Reader owner_start_;
  Reader owner_;
  std::vector<std::uint32_t> first_cells_;
};

// The owner thread ends and leaves its chunk to the thread that then pins there.
class ChunkChangesHands : public ChunkBit {
 public:
  unsigned fibers() const override { return 4; }
  void reset() override {
    ChunkBit::reset();
    heir_ = Reader(channel_.view());
    handed_over_ = false;
    chunks_.clear();
    free_.clear();
  }
  void run(unsigned fiber) override {
    if (fiber < 3) return ChunkBit::run(fiber);
    sleep_until([this] { return handed_over_; });  // the client's mutex
    heir_.ledger().adopt(free_);
    heir_.ledger().adopt(chunks_);
    pin_and_read(heir_);
  }

 protected:
  void run_owner() override {
    owner_.ledger().reclaim(0, free_);
    owner_.ledger().abandon(chunks_);
    segment::full_fence();  // the mutex is unlocked
    handed_over_ = true;
  }

 private:
  Reader heir_{channel_.view()};
  bool handed_over_ = false;
  std::vector<std::uint32_t> chunks_, free_;
};

TEST(LedgerExplorer, Owner_reclaims_while_another_releases_and_node_scans) {
  ChunkBit program;
  expect_clean("chunk bit", program, {.at_least = 23'000});
}

TEST(LedgerExplorer, Chunk_changes_hands_at_thread_exit) {
  ChunkChangesHands program;
  expect_clean("chunk changes hands", program, {.budget = 2, .at_least = 21'000});
}

TEST(LedgerExplorer, Chunk_bit_not_set_is_found) {
  ChunkBit program;
  expect_found("chunk bit not set", program, PlantedBug::kChunkBitNotSet);
}

TEST(LedgerExplorer, Chunk_bit_cleared_by_non_owner_is_found) {
  ChunkBit program;
  expect_found("chunk bit cleared by non-owner", program, PlantedBug::kChunkBitClearedByNonOwner);
}

}  // namespace
}  // namespace orlop::interleaving
