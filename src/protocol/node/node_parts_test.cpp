// SPDX-License-Identifier: Apache-2.0
// The small parts: in-flight map, duplicate finder, size classes.
#include <map>

#include "protocol/node/duplicate_finder.h"
#include "protocol/node/in_flight_map.h"
#include "protocol/node/node_fixture.h"
#include "protocol/node/size_classes.h"

namespace orlop::protocol {
namespace {

constexpr NamespaceIndex kNs{1};

class InFlightTest : public ::testing::Test {
 protected:
  segment::Geometry geometry = *segment::make_geometry(64 * kMiB, 64 * kKiB);
  TestMemory memory{geometry.control_bytes};
  segment::ControlArea area = segment::ControlArea::format(memory.span(), geometry, SegmentId{1});
  InFlightMap map{area};

  SlotId slot_with(std::uint32_t id, const KeyId& of, NamespaceIndex ns = kNs) {
    segment::SlotFields fields;
    fields.key = of;
    fields.ns = ns;
    area.slot(SlotId{id}).store_fields(fields);
    return SlotId{id};
  }
};

TEST_F(InFlightTest, Entry_is_found_by_key_and_namespace) {
  map.set(key(1), kNs, slot_with(5, key(1)));
  EXPECT_EQ(map.find(key(1), kNs), SlotId{5});
  EXPECT_FALSE(map.find(key(1), NamespaceIndex{2}));
  EXPECT_FALSE(map.find(key(2), kNs));
}

TEST_F(InFlightTest, Later_writer_replaces_and_the_earlier_cannot_erase_it) {
  map.set(key(1), kNs, slot_with(5, key(1)));
  map.set(key(1), kNs, slot_with(6, key(1)));
  map.erase(key(1), kNs, SlotId{5});
  EXPECT_EQ(map.find(key(1), kNs), SlotId{6});
  EXPECT_EQ(map.size(), 1u);
  map.erase(key(1), kNs, SlotId{6});
  EXPECT_FALSE(map.find(key(1), kNs));
  EXPECT_EQ(map.size(), 0u);
}

TEST_F(InFlightTest, Agrees_with_a_model_through_growth_and_erasure) {
  Rng rng(7);
  std::map<std::uint64_t, std::uint32_t> model;
  std::vector<std::uint32_t> free;
  for (std::uint32_t id = 4'000; id > 0; --id) free.push_back(id);
  for (int i = 0; i < 60'000; ++i) {
    const std::uint64_t k = rng.uniform(5'000);
    const auto known = model.find(k);
    ASSERT_EQ(map.find(key(k), kNs).value, known == model.end() ? 0 : known->second);
    if (known != model.end()) {
      map.erase(key(k), kNs, SlotId{known->second});
      free.push_back(known->second);
      model.erase(known);
    } else if (!free.empty()) {
      model[k] = free.back();
      map.set(key(k), kNs, slot_with(free.back(), key(k)));
      free.pop_back();
    }
    ASSERT_EQ(map.size(), model.size());
  }
}

TEST(DuplicateFinderTest, First_pair_is_named) {
  DuplicateFinder finder;
  auto list = keys(1, 1'000);
  EXPECT_FALSE(finder.find(list).has_value());
  list[700] = list[3];
  list[900] = list[4];
  const auto twice = finder.find(list);
  ASSERT_TRUE(twice.has_value());
  EXPECT_EQ(twice->first, 3u);
  EXPECT_EQ(twice->second, 700u);
  EXPECT_FALSE(finder.find(keys(1, 10)).has_value()) << "a batch forgets the one before";
}

TEST(DuplicateFinderTest, Keys_that_differ_in_one_half_are_different) {
  DuplicateFinder finder;
  const std::vector<KeyId> list = {{1, 2}, {1, 3}, {2, 2}, {3, 1}};
  EXPECT_FALSE(finder.find(list).has_value());
}

TEST(SizeClassesTest, Numbers_stay) {
  SizeClasses classes;
  EXPECT_EQ(classes.add(16), 0);
  EXPECT_EQ(classes.add(1), 1);
  EXPECT_EQ(classes.add(16), 0);
  EXPECT_EQ(classes.find(1), 1);
  EXPECT_FALSE(classes.find(2).has_value());
  EXPECT_EQ(classes.bytes(0), 65'536u);
}

TEST(SizeClassesTest, Slot_pages_of_a_value) {
  EXPECT_EQ(slot_pages_for(1), 1u);
  EXPECT_EQ(slot_pages_for(4'096), 1u);
  EXPECT_EQ(slot_pages_for(4'097), 2u);
  EXPECT_EQ(slot_pages_for(4'718'592), 1'152u);
  EXPECT_EQ(slot_pages_for(0xffffffff), 1u << 20);
}

}  // namespace
}  // namespace orlop::protocol
