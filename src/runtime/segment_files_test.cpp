// SPDX-License-Identifier: Apache-2.0
#include "runtime/segment_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include "runtime/channel_files.h"

namespace orlop::runtime {
namespace {

using ::testing::HasSubstr;

MemoryOptions small() {
  MemoryOptions options;
  options.capacity = 4 * kMiB;
  options.max_value_len = 64 * kKiB;
  return options;
}

TEST(GeometryOf, Payload_is_rounded_up_to_whole_slabs) {
  MemoryOptions options;
  options.payload_value_len = 4'718'592;
  options.payload_bytes = 109'951'162'777;
  const auto geometry = geometry_of(options);
  ASSERT_TRUE(geometry) << geometry.error().message;
  EXPECT_EQ(geometry->slab_bytes, 512 * kMiB);  // golden: design 10, "Sizes"
  EXPECT_EQ(geometry->slab_count, 207u);
  EXPECT_EQ(geometry->value_bytes(), 111'132'278'784u);
}

TEST(GeometryOf, Payload_that_moves_the_slab_size_still_fits) {
  MemoryOptions options;
  options.payload_value_len = 6 * kKiB;
  for (options.payload_bytes = kMiB; options.payload_bytes < 64 * kGiB;
       options.payload_bytes = options.payload_bytes * 3 + 1) {
    const auto geometry = geometry_of(options);
    ASSERT_TRUE(geometry) << geometry.error().message;
    const std::uint64_t slots = std::uint64_t{geometry->slab_count} *
                                segment::slots_per_slab(geometry->slab_bytes, 6 * kKiB);
    EXPECT_GE(slots * segment::slot_bytes(6 * kKiB), options.payload_bytes);
  }
}

TEST(GeometryOf, Both_forms_or_none_refused) {
  EXPECT_THAT(geometry_of({}).error().message, HasSubstr("either memory.capacity"));
  MemoryOptions both = small();
  both.payload_bytes = 1;
  EXPECT_FALSE(geometry_of(both));
  MemoryOptions half;
  half.payload_bytes = kMiB;
  EXPECT_THAT(geometry_of(half).error().message, HasSubstr("value_len"));
}

TEST(CreateSegment, Touched_and_formatted_and_mapped_again) {
  std::uint64_t reported = 0;
  auto files = create_segment(small(), [&](std::uint64_t done, std::uint64_t) {
    reported = done;
    return true;
  });
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(reported, 4 * kMiB);
  EXPECT_EQ(files->touched_bytes, 4 * kMiB);
  EXPECT_EQ(files->value.resident_bytes().value(), 4 * kMiB);
  EXPECT_NE(files->budget_text, "");
  auto map = map_segment(files->control.descriptor().duplicate().value(),
                         files->value.descriptor().duplicate().value(), files->control.bytes(),
                         files->value.bytes());
  ASSERT_TRUE(map) << map.error().message;
  EXPECT_EQ(map->area.segment_id(), files->id);
  // The descriptor for clients cannot be mapped for writing.
  EXPECT_FALSE(Mapping::map(
      {map->control_read_only.get(), 0, files->control.bytes(), Access::kReadWrite, nullptr, 0}));
}

TEST(CreateSegment, Untouched_takes_no_memory) {
  MemoryOptions options = small();
  options.touch = false;
  const auto files = create_segment(options, {});
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(files->value.resident_bytes().value(), 0u);
}

TEST(CreateSegment, Stopped_touch_is_closed) {
  const auto files = create_segment(small(), [](std::uint64_t, std::uint64_t) { return false; });
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().code, ErrorCode::kClosed);
}

TEST(CreateSegment, What_cannot_fit_is_refused_with_numbers) {
  MemoryOptions options;
  options.capacity = 4 * measure_memory().value().machine_total;
  for (const auto& refused : {fits_at_all(options).error(), create_segment(options, {}).error()}) {
    EXPECT_EQ(refused.code, ErrorCode::kNoMemory);
    EXPECT_THAT(refused.message, HasSubstr("value area"));
    EXPECT_THAT(refused.message, HasSubstr("lower memory.capacity"));
  }
}

TEST(MapSegment, Scribbled_header_is_corrupt_and_formatting_heals_it) {
  auto files = create_segment(small(), {});
  ASSERT_TRUE(files) << files.error().message;
  const auto map = [&] {
    return map_segment(files->control.descriptor().duplicate().value(),
                       files->value.descriptor().duplicate().value(), files->control.bytes(),
                       files->value.bytes());
  };
  map()->control.data()[0] = std::byte{0};
  const auto broken = map();
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, ErrorCode::kCorrupt);
  ASSERT_TRUE(format_again(*files));
  EXPECT_TRUE(map());
}

TEST(ChannelFiles, Created_handed_over_and_adopted) {
  segment::ChannelSizes sizes;
  sizes.ledger_cells = 64;
  const auto geometry = segment::make_channel_geometry(sizes).value();
  Pipe fork_pipe = make_pipe().value();
  auto made = create_channel(geometry, PidFd::of_process(::getpid()).value(),
                             std::move(fork_pipe.read_end));
  ASSERT_TRUE(made) << made.error().message;
  made->mapping.data()[100] = std::byte{42};
  std::vector<FileDescriptor> sent;
  for (const int fd : made->descriptors()) sent.emplace_back(::dup(fd));
  const auto adopted = adopt_channel(std::move(sent), geometry);
  ASSERT_TRUE(adopted) << adopted.error().message;
  EXPECT_EQ(adopted->mapping.data()[100], std::byte{42});
  EXPECT_FALSE(adopted->process.has_exited());
}

TEST(ChannelFiles, Wrong_descriptors_refused) {
  const auto geometry = segment::make_channel_geometry({}).value();
  EXPECT_FALSE(adopt_channel({}, geometry));
  std::vector<FileDescriptor> pipes;
  while (pipes.size() < kChannelFds) pipes.push_back(make_pipe().value().read_end);
  EXPECT_FALSE(adopt_channel(std::move(pipes), geometry));
}

}  // namespace
}  // namespace orlop::runtime
