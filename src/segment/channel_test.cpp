// SPDX-License-Identifier: Apache-2.0
#include "segment/channel.h"

#include <gtest/gtest.h>

#include "segment/ring.h"
#include "segment/test_segment.h"
#include "segment/touch_ring.h"

namespace orlop::segment {
namespace {

TEST(ChannelGeometry, Parts_are_page_aligned_and_do_not_overlap) {
  const ChannelGeometry g = *make_channel_geometry({});
  const std::uint64_t ends[] = {g.report_offset, g.request_ring_offset, g.response_ring_offset,
                                g.arena_offset,  g.bitmap_offset,       g.cells_offset,
                                g.touch_offset,  g.missed_offset,       g.plan_offset,
                                g.total_bytes};
  const std::uint64_t sizes[] = {sizeof(ChannelHeader),
                                 sizeof(ClientReport),
                                 kRingCells * sizeof(RingMessage),
                                 kRingCells * sizeof(RingMessage),
                                 g.arena_bytes,
                                 (g.ledger_chunks + 63) / 64 * 8,
                                 std::uint64_t{g.ledger_chunks} * 64 * 8,
                                 std::uint64_t{g.touch_cells} * 4,
                                 kMissedCells * sizeof(MissedCell),
                                 g.plan_bytes};
  std::uint64_t start = 0;
  for (int i = 0; i < 10; ++i) {
    EXPECT_LE(start + sizes[i], ends[i]);
    EXPECT_EQ(ends[i] % kPageBytes, 0U);
    start = ends[i];
  }
  EXPECT_EQ(g.ledger_chunks, 15'625U);  // 1,000,000 cells in chunks of 64
}

TEST(ChannelGeometry, Cells_round_up_to_whole_chunks) {
  ChannelSizes sizes;
  sizes.ledger_cells = 65;
  EXPECT_EQ(make_channel_geometry(sizes)->ledger_chunks, 2U);
}

TEST(ChannelGeometry, Errors_name_field_value_and_limits) {
  const auto message = [](auto change) {
    ChannelSizes sizes;
    change(sizes);
    const auto geometry = make_channel_geometry(sizes);
    return geometry ? std::string("none") : geometry.error().message;
  };
  EXPECT_EQ(message([](ChannelSizes& s) { s.ledger_cells = 63; }),
            "channel: ledger_cells is 63; it must be 64..67108864");
  EXPECT_EQ(message([](ChannelSizes& s) { s.touch_cells = 100; }),
            "channel: touch_cells is 100; it must be a power of two");
  EXPECT_EQ(message([](ChannelSizes& s) { s.arena_bytes = 65'535; }),
            "channel: arena_bytes is 65535; it must be 65536..1073741824");
  EXPECT_EQ(message([](ChannelSizes& s) { s.plan_bytes = kGiB + 1; }),
            "channel: plan_bytes is 1073741825; it must be 65536..1073741824");
}

TEST(ChannelView, Open_of_what_format_wrote_succeeds_and_says_what_differs_otherwise) {
  TestChannel channel;
  const ChannelGeometry geometry = channel.view().geometry();
  EXPECT_TRUE(ChannelView::open(channel.span(), geometry).has_value());
  EXPECT_FALSE(ChannelView::open(channel.span().first(4096), geometry).has_value());
  channel.view().header().abi = 7;
  const auto other = ChannelView::open(channel.span(), geometry);
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, ErrorCode::kAbiMismatch);
  channel.view().header().magic = 0;
  EXPECT_NE(ChannelView::open(channel.span(), geometry).error().message.find("magic"),
            std::string::npos);
  // The node scans the ledger of a client that scribbled on its header all the same.
  EXPECT_EQ(ChannelView::over(channel.span(), geometry).cells(), channel.view().cells());
}

class RingTest : public testing::Test {
 protected:
  RingMessage message(std::uint64_t id) {
    RingMessage m;
    m.request_id = id;
    return m;
  }
  TestChannel channel_;
  ChannelHeader& header_ = channel_.view().header();
  RingProducer producer_{channel_.view().request_cells(), &header_.request_tail,
                         &header_.request_head};
  RingConsumer consumer_{channel_.view().request_cells(), &header_.request_tail,
                         &header_.request_head};
};

TEST_F(RingTest, Messages_come_out_in_order) {
  RingMessage out;
  EXPECT_EQ(consumer_.pop(&out), RingConsumer::Pop::kEmpty);
  for (std::uint64_t i = 0; i < 3 * kRingCells; ++i) {
    ASSERT_TRUE(producer_.push(message(i)));
    EXPECT_FALSE(consumer_.empty());
    ASSERT_EQ(consumer_.pop(&out), RingConsumer::Pop::kMessage);
    EXPECT_EQ(out.request_id, i);
  }
  EXPECT_TRUE(consumer_.empty());
}

TEST_F(RingTest, Full_ring_takes_no_more_until_one_is_consumed) {
  for (std::uint64_t i = 0; i < kRingCells; ++i) ASSERT_TRUE(producer_.push(message(i)));
  EXPECT_EQ(producer_.room(), 0U);
  EXPECT_FALSE(producer_.push(message(999)));
  RingMessage out;
  ASSERT_EQ(consumer_.pop(&out), RingConsumer::Pop::kMessage);
  EXPECT_EQ(producer_.room(), 1U);
  EXPECT_TRUE(producer_.push(message(999)));
}

TEST_F(RingTest, Counters_wrap_at_2_to_the_32) {
  header_.request_tail.store(~0U - 1);
  header_.request_head.store(~0U - 1);
  RingProducer producer(channel_.view().request_cells(), &header_.request_tail,
                        &header_.request_head);
  RingConsumer consumer(channel_.view().request_cells(), &header_.request_tail,
                        &header_.request_head);
  RingMessage out;
  for (std::uint64_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(producer.push(message(i)));
    ASSERT_EQ(consumer.pop(&out), RingConsumer::Pop::kMessage);
    EXPECT_EQ(out.request_id, i);
  }
}

TEST_F(RingTest, Hostile_tail_is_malformed_and_moves_nothing) {
  RingMessage out;
  for (const std::uint32_t tail : {kRingCells + 1, 0x80000000U, ~0U}) {
    header_.request_tail.store(tail);
    EXPECT_EQ(consumer_.pop(&out), RingConsumer::Pop::kMalformed);
  }
  EXPECT_EQ(header_.request_head.load(), 0U);
}

TEST_F(RingTest, Hostile_head_reads_as_full) {
  header_.request_head.store(5);  // beyond the tail
  EXPECT_EQ(producer_.room(), 0U);
  EXPECT_FALSE(producer_.push(message(1)));
}

TEST_F(RingTest, Reset_of_both_sides_starts_at_zero) {
  producer_.push(message(1));
  producer_.reset();
  consumer_.reset();
  EXPECT_TRUE(consumer_.empty());
  EXPECT_TRUE(producer_.push(message(2)));
  RingMessage out;
  EXPECT_EQ(consumer_.pop(&out), RingConsumer::Pop::kMessage);
  EXPECT_EQ(out.request_id, 2U);
}

class TouchTest : public testing::Test {
 protected:
  void touch_slots(std::uint32_t first, std::uint32_t count) {
    std::vector<PinnedSlot> prefix(count);
    for (std::uint32_t i = 0; i < count; ++i) prefix[i].slot = SlotId{first + i};
    touch(channel_.view(), prefix);
  }
  std::vector<std::uint32_t> drain(std::uint32_t limit = 1'000'000) {
    std::vector<std::uint32_t> slots;
    lost_ += reader_.drain(limit, [&](SlotId slot) { slots.push_back(slot.value); });
    return slots;
  }
  TestChannel channel_{1024, 64};
  TouchReader reader_{channel_.view()};
  std::uint32_t lost_ = 0;
};

TEST_F(TouchTest, Leaf_comes_first_and_root_last) {
  touch_slots(10, 3);
  EXPECT_TRUE(reader_.pending());
  EXPECT_EQ(drain(), (std::vector<std::uint32_t>{12, 11, 10}));
  EXPECT_FALSE(reader_.pending());
  EXPECT_EQ(lost_, 0U);
}

TEST_F(TouchTest, Overflow_is_counted_and_the_latest_are_kept) {
  for (std::uint32_t i = 0; i < 100; ++i) touch_slots(i + 1, 1);
  const auto slots = drain();
  EXPECT_EQ(lost_, 36U);
  ASSERT_EQ(slots.size(), 64U);
  EXPECT_EQ(slots.front(), 37U);
  EXPECT_EQ(slots.back(), 100U);
}

TEST_F(TouchTest, One_read_longer_than_the_ring_keeps_its_root) {
  touch_slots(1, 200);
  const auto slots = drain();
  EXPECT_EQ(lost_, 136U);
  ASSERT_EQ(slots.size(), 64U);
  EXPECT_EQ(slots.back(), 1U);
}

TEST_F(TouchTest, Limit_leaves_the_rest_for_the_next_drain) {
  touch_slots(1, 10);
  EXPECT_EQ(drain(4).size(), 4U);
  EXPECT_TRUE(reader_.pending());
  EXPECT_EQ(drain(), (std::vector<std::uint32_t>{6, 5, 4, 3, 2, 1}));
}

TEST_F(TouchTest, Tail_wraps_at_2_to_the_32) {
  channel_.view().header().touch_tail.store(~0U - 1);
  reader_ = TouchReader(channel_.view());
  touch_slots(1, 4);
  EXPECT_EQ(drain(), (std::vector<std::uint32_t>{4, 3, 2, 1}));
  EXPECT_EQ(lost_, 0U);
}

TEST_F(TouchTest, Hostile_tail_costs_one_ring_at_most) {
  channel_.view().header().touch_tail.store(0x80000000);
  EXPECT_LE(drain().size(), 64U);
  EXPECT_FALSE(reader_.pending());
}

}  // namespace
}  // namespace orlop::segment
