// SPDX-License-Identifier: Apache-2.0
#include "platform/mapping.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "base/bytes.h"
#include "platform/memory_file.h"
#include "platform/smaps.h"
#include "platform/test_process.h"

namespace orlop {
namespace {

MemoryFile file_of(std::uint64_t bytes) {
  auto file = MemoryFile::create({.name = "orlop-mapping", .bytes = bytes});
  EXPECT_TRUE(file.has_value()) << file.error().message;
  return std::move(*file);
}

// The kernel's own view: is any page of the range part of this process?
bool is_mapped(const void* address, std::size_t bytes) {
  return ::msync(const_cast<void*>(address), bytes, MS_ASYNC) == 0;
}

TEST(Mapping, Two_mappings_show_the_same_memory) {
  const MemoryFile file = file_of(kMiB);
  auto a = Mapping::map({.fd = file.fd(), .bytes = kMiB, .access = Access::kReadWrite});
  auto b = Mapping::map({.fd = file.fd(), .offset = kPageBytes, .bytes = kPageBytes});
  ORLOP_ASSERT_OK(a);
  ORLOP_ASSERT_OK(b);
  a->data()[kPageBytes + 5] = std::byte{9};
  EXPECT_EQ(b->data()[5], std::byte{9});
}

TEST(Mapping, End_of_life_unmaps_and_move_keeps_the_address) {
  const MemoryFile file = file_of(kMiB);
  std::byte* address = nullptr;
  {
    auto a = Mapping::map({.fd = file.fd(), .bytes = kMiB});
    ORLOP_ASSERT_OK(a);
    address = a->data();
    Mapping b = std::move(*a);
    EXPECT_FALSE(*a);
    EXPECT_EQ(b.data(), address);
    EXPECT_TRUE(is_mapped(address, kMiB));
  }
  EXPECT_FALSE(is_mapped(address, kPageBytes));
}

TEST(Mapping, Forked_child_does_not_have_it) {
  const MemoryFile file = file_of(kMiB);
  auto mapping = Mapping::map({.fd = file.fd(), .bytes = kMiB, .access = Access::kReadWrite});
  ORLOP_ASSERT_OK(mapping);
  mapping->data()[0] = std::byte{1};
  ForkedChild child([&] { return is_mapped(mapping->data(), kPageBytes) ? 1 : 0; });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(is_mapped(mapping->data(), kMiB));
}

TEST(Mapping, Large_one_is_aligned_for_huge_pages) {
  const MemoryFile file = file_of(4 * kHugePageBytes + kPageBytes);
  auto mapping = Mapping::map({.fd = file.fd(), .bytes = file.bytes()});
  ORLOP_ASSERT_OK(mapping);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapping->data()) % kHugePageBytes, 0u);
}

TEST(Mapping, Range_outside_the_file_is_refused) {
  const MemoryFile file = file_of(kMiB);
  const auto code = [&](std::uint64_t offset, std::uint64_t bytes) {
    auto mapping = Mapping::map({.fd = file.fd(), .offset = offset, .bytes = bytes});
    return mapping ? ErrorCode{} : mapping.error().code;
  };
  EXPECT_EQ(code(0, kMiB + kPageBytes), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(kMiB, kPageBytes), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(1, kPageBytes), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(0, 0), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(kPageBytes, ~std::uint64_t{4095}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Mapping::map({.fd = -1, .bytes = kPageBytes}).error().code, ErrorCode::kSystem);
}

TEST(Mapping, Placed_in_a_reservation_lies_where_asked_and_gives_the_place_back) {
  const MemoryFile file = file_of(kMiB);
  auto reservation = AddressReservation::make(8 * kMiB, kHugePageBytes);
  ORLOP_ASSERT_OK(reservation);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(reservation->data()) % kHugePageBytes, 0u);
  for (int round = 0; round < 3; ++round) {
    auto mapping = Mapping::map({.fd = file.fd(),
                                 .bytes = kMiB,
                                 .access = Access::kReadWrite,
                                 .inside = &*reservation,
                                 .inside_offset = 3 * kMiB});
    ORLOP_ASSERT_OK(mapping);
    EXPECT_EQ(mapping->data(), reservation->data() + 3 * kMiB);
    mapping->data()[round] = std::byte{5};
  }
  // Still reserved: mapped, without access.
  EXPECT_TRUE(is_mapped(reservation->data(), 8 * kMiB));
  auto outside = Mapping::map(
      {.fd = file.fd(), .bytes = kMiB, .inside = &*reservation, .inside_offset = 7 * kMiB + 4096});
  EXPECT_EQ(outside.error().code, ErrorCode::kInvalidArgument);
}

TEST(AddressReservation, Bad_sizes_are_refused) {
  EXPECT_FALSE(AddressReservation::make(0, 4096).has_value());
  EXPECT_FALSE(AddressReservation::make(100, 4096).has_value());
  EXPECT_FALSE(AddressReservation::make(4096, 3 * 4096).has_value());
  auto huge = AddressReservation::make(1ull << 60, 4096);
  ASSERT_FALSE(huge.has_value());
  EXPECT_EQ(huge.error().code, ErrorCode::kNoMemory);
}

TEST(Mapping, Advice_of_small_pages_gives_no_huge_ones) {
  const MemoryFile file = file_of(4 * kMiB);
  auto mapping = Mapping::map({.fd = file.fd(), .bytes = 4 * kMiB, .access = Access::kReadWrite});
  ORLOP_ASSERT_OK(mapping);
  ORLOP_ASSERT_OK(mapping->advise_small());
  for (std::uint64_t at = 0; at < mapping->size(); at += kPageBytes) mapping->data()[at] = {};
  auto huge = huge_bytes_of(*mapping);
  ORLOP_ASSERT_OK(huge);
  EXPECT_EQ(*huge, 0u);
}

TEST(Mapping, Advice_of_huge_pages_is_judged_by_smaps_only) {
  const MemoryFile file = file_of(4 * kMiB);
  auto mapping = Mapping::map({.fd = file.fd(), .bytes = 4 * kMiB, .access = Access::kReadWrite});
  ORLOP_ASSERT_OK(mapping);
  // Either answer is allowed; what counts is that the proof is within the mapping's size.
  const bool said_yes = mapping->advise_huge().has_value();
  for (std::uint64_t at = 0; at < mapping->size(); at += kPageBytes) mapping->data()[at] = {};
  auto huge = huge_bytes_of(*mapping);
  ORLOP_ASSERT_OK(huge);
  EXPECT_LE(*huge, mapping->size());
  if (!said_yes) {
    EXPECT_EQ(*huge, 0u);
  }
}

}  // namespace
}  // namespace orlop
