// SPDX-License-Identifier: Apache-2.0
// The touch ring: what the node drains was touched, in order, and what is lost is counted.
#include <gtest/gtest.h>

#include <vector>

#include "explorer.h"
#include "page_world.h"
#include "segment/pin.h"
#include "segment/touch_ring.h"

namespace orlop::interleaving {
namespace {

// Fiber 0 finishes `reads` reads of `pages` pages each; fiber 1 drains three times. Touch number n
// names slot n, so that a place in the ring tells which touch must be there.
class Touches : public Program {
 public:
  Touches(std::uint32_t reads, std::uint32_t pages) : reads_(reads), pages_(pages) {
    channel_.view().header().touch_tail.store(kFirst);
  }
  unsigned fibers() const override { return 2; }
  bool branches_after_stores() const override { return true; }
  std::string name_of(const void* address) const override { return channel_.name_of(address); }

  void reset() override {
    reader_ = segment::TouchReader(channel_.view());
    seen_ = lost_ = 0;
  }
  void run(unsigned fiber) override {
    if (fiber == 0) {
      for (std::uint32_t read = 0; read < reads_; ++read) touch_once(read * pages_);
    } else {
      for (int drains = 0; drains < 3; ++drains) drain();
    }
  }
  void verify() override {
    drain();
    require(!reader_.pending(), "a drain left something");
    require(seen_ + lost_ == reads_ * pages_, "touches are neither drained nor counted as lost");
    require(lost_ == 0 || reads_ * pages_ > segment::kMinTouchCells, "lost without an overflow");
  }

 private:
  static constexpr std::uint32_t kFirst = 0U - 5;  // the counter wraps on the way

  // touch() writes leaf first: from the back of the prefix.
  void touch_once(std::uint32_t before) {
    std::vector<segment::PinnedSlot> prefix(pages_);
    for (std::uint32_t i = 0; i < pages_; ++i) prefix[pages_ - 1 - i].slot = SlotId{before + i + 1};
    segment::touch(channel_.view(), prefix);
  }
  void drain() {
    drained_.clear();
    lost_ += reader_.drain(~0U, [this](SlotId slot) { drained_.push_back(slot.value); });
    for (const std::uint32_t touch : drained_) {
      ++seen_;
      // The ring is lossy: a place that was overwritten meanwhile names a later touch.
      const std::uint32_t due = seen_ + lost_;
      require(touch >= due && (touch - due) % segment::kMinTouchCells == 0,
              "a touch that is not of this place");
      require(touch <= reads_ * pages_, "a touch that nobody made");
    }
  }

  std::uint32_t reads_, pages_;
  ClientChannel channel_;
  segment::TouchReader reader_;
  std::uint32_t seen_ = 0, lost_ = 0;
  std::vector<std::uint32_t> drained_;
};

TEST(TouchExplorer, In_order_and_complete_without_overflow) {
  Touches program(3, 2);
  expect_clean("touches", program);
}

TEST(TouchExplorer, Overflow_is_counted) {
  Touches program(3, 30);
  expect_clean("touches: overflow", program, {.budget = 2, .at_least = 8'000});
}

TEST(TouchExplorer, Lost_touches_uncounted_are_found) {
  Touches program(3, 30);
  expect_found("lost touches uncounted", program, PlantedBug::kLostTouchesUncounted);
}

}  // namespace
}  // namespace orlop::interleaving
