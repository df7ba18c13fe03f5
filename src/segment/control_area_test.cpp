// SPDX-License-Identifier: Apache-2.0
#include "segment/control_area.h"

#include <gtest/gtest.h>

#include "segment/test_segment.h"

namespace orlop::segment {
namespace {

TEST(ControlArea, Formatted_area_opens_with_the_same_contents) {
  TestSegment segment;
  const auto opened = ControlArea::open(segment.span());
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  EXPECT_EQ(opened->geometry(), segment.geometry());
  EXPECT_EQ(opened->segment_id(), SegmentId{77});
  EXPECT_EQ(opened->index_word(), IndexWord{});
  EXPECT_EQ(opened->current_index(NamespaceRow{0}), NamespaceIndex{0});
  EXPECT_EQ(opened->header().next_namespace_index.load(), 1U);
  EXPECT_EQ(opened->header().pin_cap_bytes.load(), segment.geometry().value_bytes() / 4);
}

TEST(ControlArea, Row_0_and_rows_beyond_the_table_are_no_slots) {
  const TestSegment segment;
  EXPECT_FALSE(segment.area().valid_slot(SlotId{0}));
  EXPECT_TRUE(segment.area().valid_slot(SlotId{1}));
  EXPECT_TRUE(segment.area().valid_slot(SlotId{segment.geometry().slot_rows - 1}));
  EXPECT_FALSE(segment.area().valid_slot(SlotId{segment.geometry().slot_rows}));
}

TEST(ControlArea, Tables_do_not_overlap) {
  TestSegment segment;
  const ControlArea& area = segment.area();
  const Geometry& g = segment.geometry();
  area.slab(SlabId{g.slab_count - 1}).slot_pages.store(7);
  area.namespace_row(NamespaceRow{kMaxNamespaceRows - 1}).value_len = 8;
  area.namespace_text(NamespaceRow{kMaxNamespaceRows - 1}).back() = 'x';
  area.slot(SlotId{g.slot_rows - 1}).checksum.store(9);
  area.index_place(0)[(1U << g.max_index_log2) - 1].overflowed.store(10);
  area.index_place(1)[(1U << g.max_index_log2) - 1].overflowed.store(11);
  EXPECT_TRUE(ControlArea::open(segment.span()).has_value());
  EXPECT_EQ(area.slab(SlabId{g.slab_count - 1}).slot_pages.load(), 7U);
  EXPECT_EQ(area.namespace_row(NamespaceRow{kMaxNamespaceRows - 1}).value_len, 8U);
  EXPECT_EQ(area.namespace_text(NamespaceRow{kMaxNamespaceRows - 1}).back(), 'x');
  EXPECT_EQ(area.slot(SlotId{g.slot_rows - 1}).checksum.load(), 9U);
  EXPECT_EQ(area.index_place(0)[(1U << g.max_index_log2) - 1].overflowed.load(), 10U);
  EXPECT_EQ(area.index_place(1)[0].overflowed.load(), 0U);
}

// Each fault has its name in the error, with what was found.
TEST(ControlArea, Open_names_what_is_wrong) {
  TestSegment segment;
  ControlHeader& header = segment.area().header();
  const auto error_after = [&](auto change, auto undo) {
    change();
    const auto opened = ControlArea::open(segment.span());
    undo();
    return opened ? std::string("none") : opened.error().message;
  };
  EXPECT_NE(error_after([&] { ++header.magic; }, [&] { --header.magic; }).find("magic"),
            std::string::npos);
  EXPECT_NE(error_after([&] { ++header.abi; }, [&] { --header.abi; })
                .find("ABI version is " + std::to_string(kAbiVersion + 1)),
            std::string::npos);
  EXPECT_NE(error_after([&] { ++header.segment_id; }, [&] { --header.segment_id; })
                .find("header checksum"),
            std::string::npos);
  EXPECT_NE(
      error_after([&] { ++header.geometry.slab_count; }, [&] { --header.geometry.slab_count; })
          .find("header checksum"),
      std::string::npos);
  EXPECT_TRUE(ControlArea::open(segment.span()).has_value());
}

// A client goes on with its plans while a server that dies damages the header.
TEST(ControlArea, View_of_a_header_damaged_later_keeps_its_geometry) {
  TestSegment segment;
  const ControlArea view = ControlArea::open(segment.span()).value();
  const Geometry before = segment.geometry();
  segment.area().header().geometry.slab_bytes *= 2;
  segment.area().header().geometry.slot_rows = 1;
  EXPECT_EQ(view.geometry(), before);
  EXPECT_TRUE(view.valid_slot(SlotId{before.slot_rows - 1}));
  EXPECT_FALSE(ControlArea::open(segment.span()).has_value());
}

TEST(ControlArea, Open_of_a_short_span_is_refused) {
  TestSegment segment;
  EXPECT_FALSE(ControlArea::open(segment.span().first(100)).has_value());
  const auto cut = ControlArea::open(segment.span().first(segment.geometry().control_bytes - 1));
  ASSERT_FALSE(cut.has_value());
  EXPECT_NE(cut.error().message.find("size"), std::string::npos);
}

TEST(IndexWord, Unpack_of_any_word_stays_inside_two_places_and_64_bits) {
  const IndexWord word{7, 1, 29};
  EXPECT_EQ(IndexWord::unpack(word.pack()), word);
  const IndexWord hostile = IndexWord::unpack(~std::uint64_t{0});
  EXPECT_LE(hostile.place, 1);
  EXPECT_LE(hostile.log2, 63);
}

}  // namespace
}  // namespace orlop::segment
