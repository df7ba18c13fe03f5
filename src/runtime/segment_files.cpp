// SPDX-License-Identifier: Apache-2.0
#include "runtime/segment_files.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "platform/random_bytes.h"

namespace orlop::runtime {
namespace {

// The slab size depends on the capacity and the capacity on the slab size; both only grow, and a
// slab has few possible sizes.
Result<std::uint64_t> capacity_for_payload(const MemoryOptions& options,
                                           std::uint64_t max_value_len) {
  if (options.payload_value_len == 0 || options.payload_bytes == 0) {
    return fail(ErrorCode::kInvalidArgument,
                "memory.payload needs value_len and bytes, both larger than 0");
  }
  std::uint64_t capacity = options.payload_bytes;
  for (;;) {
    const std::uint64_t slab = segment::slab_bytes_for(capacity, max_value_len);
    const std::uint64_t slabs =
        segment::expected_slabs(options.payload_bytes, slab, options.payload_value_len);
    const std::uint64_t wanted = std::max(capacity, slabs * slab);
    if (segment::slab_bytes_for(wanted, max_value_len) == slab) return slabs * slab;
    capacity = wanted;
  }
}

BudgetRequest budget_request(const MemoryOptions& options, const segment::Geometry& geometry,
                             bool reserved_huge) {
  BudgetRequest request;
  // Untouched memory is taken later, by whoever writes; the operator asked for that.
  request.value_bytes = options.touch ? geometry.value_bytes() : 0;
  request.control_bytes = geometry.control_bytes;
  request.private_bytes = kPrivateBytes;
  request.huge = reserved_huge;
  return request;
}

// Mapped only for this long: the keeper itself needs no mapping of the value area.
Result<void> prepare_value_area(const MemoryOptions& options, const TouchProgress& progress,
                                SegmentFiles& files) {
  auto mapping =
      Mapping::map({files.value.fd(), 0, files.value.bytes(), Access::kReadWrite, nullptr, 0});
  if (!mapping) return std::unexpected<Error>(mapping.error());
  const auto bound = bind(*mapping, options.numa);
  if (!bound) return bound;
  if (options.huge == HugePages::kTry && !files.value.reserved_huge()) {
    // A refusal is no error: huge pages are a wish, and only smaps tells what came of it.
    (void)mapping->advise_huge();
  }
  if (!options.touch) return {};
  const auto touched = first_touch(*mapping, {.progress = progress});
  if (!touched) return std::unexpected<Error>(touched.error());
  files.touched_bytes = touched->bytes;
  if (const auto huge = huge_bytes_of(*mapping)) files.huge_bytes = *huge;
  if (auto nodes = bytes_by_node(*mapping)) files.bytes_by_node = std::move(*nodes);
  return {};
}

Result<void> format_control(const SegmentFiles& files) {
  auto mapping =
      Mapping::map({files.control.fd(), 0, files.control.bytes(), Access::kReadWrite, nullptr, 0});
  if (!mapping) return std::unexpected<Error>(mapping.error());
  (void)mapping->advise_small();  // sparse: 2 MiB at a time would fill it
  segment::ControlArea::format(mapping->span(), files.geometry, files.id);
  return {};
}

}  // namespace

Result<segment::Geometry> geometry_of(const MemoryOptions& options) {
  const bool payload = options.payload_value_len != 0 || options.payload_bytes != 0;
  if ((options.capacity != 0) == payload) {
    return fail(ErrorCode::kInvalidArgument,
                "give either memory.capacity or memory.payload (value_len and bytes)");
  }
  if (!payload) return segment::make_geometry(options.capacity, options.max_value_len);
  const std::uint64_t longest = std::max(options.max_value_len, options.payload_value_len);
  if (longest > segment::kMaxSlabBytes) {
    return fail(ErrorCode::kInvalidArgument,
                "memory.payload.value_len is " + format_bytes(options.payload_value_len) +
                    ", a value can have at most " + format_bytes(segment::kMaxSlabBytes));
  }
  const auto capacity = capacity_for_payload(options, longest);
  if (!capacity) return std::unexpected<Error>(capacity.error());
  return segment::make_geometry(*capacity, longest);
}

Result<SegmentFiles> create_segment(const MemoryOptions& options, const TouchProgress& progress,
                                    const MemorySources& sources) {
  const auto geometry = geometry_of(options);
  if (!geometry) return std::unexpected<Error>(geometry.error());
  SegmentFiles files;
  files.geometry = *geometry;
  const auto id = random_id();
  if (!id) return std::unexpected<Error>(id.error());
  files.id = SegmentId{*id};
  auto value = MemoryFile::create({"orlop-value", geometry->value_bytes(), options.huge, 0600});
  if (!value) return std::unexpected<Error>(value.error());
  files.value = std::move(*value);
  // 0444: clients get a read-only descriptor that other users cannot reopen for writing.
  auto control =
      MemoryFile::create({"orlop-control", geometry->control_bytes, HugePages::kOff, 0444});
  if (!control) return std::unexpected<Error>(control.error());
  files.control = std::move(*control);

  const auto budget =
      check_budget(budget_request(options, *geometry, files.value.reserved_huge()), sources);
  if (!budget) return std::unexpected<Error>(budget.error());
  files.budget_text = budget->text;
  const auto prepared = prepare_value_area(options, progress, files);
  if (!prepared) return std::unexpected<Error>(prepared.error());
  const auto formatted = format_control(files);
  if (!formatted) return std::unexpected<Error>(formatted.error());
  return files;
}

Result<void> fits_at_all(const MemoryOptions& options, const MemorySources& sources) {
  const auto geometry = geometry_of(options);
  if (!geometry) return std::unexpected<Error>(geometry.error());
  auto available = measure_memory(sources);
  if (!available) return std::unexpected<Error>(available.error());
  available->machine_available = available->machine_total;
  for (CgroupLimit& limit : available->limits) limit.usage = limit.reclaimable = 0;
  // Reserved huge pages would only make more room.
  const auto budget = check_budget_against(budget_request(options, *geometry, false), *available);
  if (!budget) return std::unexpected<Error>(budget.error());
  return {};
}

Result<void> format_again(const SegmentFiles& files) {
  // A second handle on the same file: punch_hole is the owner's call and files stays const.
  auto descriptor = files.control.descriptor().duplicate();
  if (!descriptor) return std::unexpected<Error>(descriptor.error());
  auto control = MemoryFile::adopt(std::move(*descriptor), files.control.bytes());
  if (!control) return std::unexpected<Error>(control.error());
  const auto punched = control->punch_hole(0, control->bytes());
  if (!punched) return punched;
  return format_control(files);
}

Result<SegmentMap> map_segment(FileDescriptor control, FileDescriptor value,
                               std::uint64_t control_bytes, std::uint64_t value_bytes) {
  SegmentMap map;
  auto control_file = MemoryFile::adopt(std::move(control), control_bytes);
  if (!control_file) return std::unexpected<Error>(control_file.error());
  map.control_file = std::move(*control_file);
  auto value_file = MemoryFile::adopt(std::move(value), value_bytes);
  if (!value_file) return std::unexpected<Error>(value_file.error());
  map.value_file = std::move(*value_file);
  auto read_only = map.control_file.reopen_read_only();
  if (!read_only) return std::unexpected<Error>(read_only.error());
  map.control_read_only = std::move(*read_only);
  auto control_map =
      Mapping::map({map.control_file.fd(), 0, control_bytes, Access::kReadWrite, nullptr, 0});
  if (!control_map) return std::unexpected<Error>(control_map.error());
  map.control = std::move(*control_map);
  (void)map.control.advise_small();
  auto value_map =
      Mapping::map({map.value_file.fd(), 0, value_bytes, Access::kReadWrite, nullptr, 0});
  if (!value_map) return std::unexpected<Error>(value_map.error());
  map.value = std::move(*value_map);
  auto area = segment::ControlArea::open(map.control.span());
  if (!area) return fail(ErrorCode::kCorrupt, area.error().message);
  if (area->geometry().value_bytes() != value_bytes) {
    return fail(ErrorCode::kCorrupt,
                "control area describes " + format_bytes(area->geometry().value_bytes()) +
                    " of values, the value area has " + format_bytes(value_bytes));
  }
  map.area = *area;
  return map;
}

}  // namespace orlop::runtime
