// SPDX-License-Identifier: Apache-2.0
#include "segment/channel.h"

#include <bit>
#include <string>

#include "base/check.h"
#include "segment/control_area.h"

namespace orlop::segment {
namespace {

Result<void> check_limits(const char* field, std::uint64_t value, std::uint64_t least,
                          std::uint64_t most) {
  if (value >= least && value <= most) return {};
  return fail(ErrorCode::kInvalidArgument, std::string("channel: ") + field + " is " +
                                               std::to_string(value) + "; it must be " +
                                               std::to_string(least) + ".." + std::to_string(most));
}

Result<void> check_sizes(const ChannelSizes& sizes) {
  for (const auto& checked :
       {check_limits("ledger_cells", sizes.ledger_cells, kCellsPerChunk, kMaxLedgerCells),
        check_limits("touch_cells", sizes.touch_cells, kMinTouchCells, kMaxTouchCells),
        check_limits("arena_bytes", sizes.arena_bytes, kMinPartBytes, kMaxPartBytes),
        check_limits("plan_bytes", sizes.plan_bytes, kMinPartBytes, kMaxPartBytes)}) {
    if (!checked) return checked;
  }
  if (!std::has_single_bit(sizes.touch_cells)) {
    return fail(ErrorCode::kInvalidArgument, "channel: touch_cells is " +
                                                 std::to_string(sizes.touch_cells) +
                                                 "; it must be a power of two");
  }
  return {};
}

}  // namespace

Result<ChannelGeometry> make_channel_geometry(const ChannelSizes& sizes) {
  if (const auto checked = check_sizes(sizes); !checked) return std::unexpected(checked.error());
  ChannelGeometry g;
  g.ledger_chunks = static_cast<std::uint32_t>(div_ceil(sizes.ledger_cells, kCellsPerChunk));
  g.touch_cells = sizes.touch_cells;
  g.arena_bytes = align_up(sizes.arena_bytes, kPageBytes);
  g.plan_bytes = align_up(sizes.plan_bytes, kPageBytes);

  std::uint64_t at = kPageBytes;  // the header
  const auto place = [&at](std::uint64_t bytes) {
    const std::uint64_t offset = at;
    at = align_up(at + bytes, kPageBytes);
    return offset;
  };
  constexpr std::uint64_t kRingBytes = std::uint64_t{kRingCells} * sizeof(RingMessage);
  g.report_offset = place(sizeof(ClientReport));
  g.request_ring_offset = place(kRingBytes);
  g.response_ring_offset = place(kRingBytes);
  g.arena_offset = place(g.arena_bytes);
  g.bitmap_offset = place(div_ceil(g.ledger_chunks, 64) * 8);
  g.cells_offset = place(std::uint64_t{g.ledger_chunks} * kCellsPerChunk * 8);
  g.touch_offset = place(std::uint64_t{g.touch_cells} * 4);
  g.missed_offset = place(std::uint64_t{kMissedCells} * sizeof(MissedCell));
  g.plan_offset = place(g.plan_bytes);
  g.total_bytes = at;
  return g;
}

ChannelView ChannelView::format(std::span<std::byte> span, const ChannelGeometry& geometry,
                                const ChannelSizes& sizes, ClientId client) {
  ChannelView view = over(span, geometry);
  view.header_->abi = kAbiVersion;
  view.header_->client_id = client.value;
  view.header_->sizes = sizes;
  view.header_->magic = kChannelMagic;
  return view;
}

ChannelView ChannelView::over(std::span<std::byte> span, const ChannelGeometry& geometry) {
  CHECK(span.size() >= geometry.total_bytes, "span smaller than the channel");
  std::byte* base = span.data();
  CHECK(reinterpret_cast<std::uintptr_t>(base) % kCacheLine == 0);
  ChannelView view;
  view.geometry_ = geometry;
  view.header_ = reinterpret_cast<ChannelHeader*>(base);
  view.report_ = reinterpret_cast<ClientReport*>(base + geometry.report_offset);
  view.requests_ = reinterpret_cast<RingMessage*>(base + geometry.request_ring_offset);
  view.responses_ = reinterpret_cast<RingMessage*>(base + geometry.response_ring_offset);
  view.arena_ = span.subspan(geometry.arena_offset, geometry.arena_bytes);
  view.plans_ = span.subspan(geometry.plan_offset, geometry.plan_bytes);
  view.bitmap_ = reinterpret_cast<Atomic<std::uint64_t>*>(base + geometry.bitmap_offset);
  view.cells_ = reinterpret_cast<Atomic<std::uint64_t>*>(base + geometry.cells_offset);
  view.touches_ = reinterpret_cast<Atomic<std::uint32_t>*>(base + geometry.touch_offset);
  view.missed_ = reinterpret_cast<MissedCell*>(base + geometry.missed_offset);
  return view;
}

Result<ChannelView> ChannelView::open(std::span<std::byte> span, const ChannelGeometry& geometry) {
  if (span.size() < geometry.total_bytes) {
    return fail(ErrorCode::kCorrupt, "channel: " + std::to_string(span.size()) +
                                         " bytes are mapped, the geometry needs " +
                                         std::to_string(geometry.total_bytes));
  }
  const ChannelView view = over(span, geometry);
  if (view.header_->magic != kChannelMagic) {
    return fail(ErrorCode::kCorrupt, "channel: magic is " + std::to_string(view.header_->magic) +
                                         ", expected " + std::to_string(kChannelMagic));
  }
  if (view.header_->abi != kAbiVersion) {
    return fail(ErrorCode::kAbiMismatch, "channel: ABI version is " +
                                             std::to_string(view.header_->abi) + ", expected " +
                                             std::to_string(kAbiVersion));
  }
  return view;
}

void ChannelView::mark_reclaimed(ClientId client) const {
  header_->reclaimed.store(kReclaimedMark ^ client.value, std::memory_order_release);
}

bool ChannelView::reclaimed(ClientId client) const {
  return header_->reclaimed.load(std::memory_order_acquire) == (kReclaimedMark ^ client.value);
}

}  // namespace orlop::segment
