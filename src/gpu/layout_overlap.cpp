// SPDX-License-Identifier: Apache-2.0
#include "gpu/layout_overlap.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace orlop::gpu {
namespace {

// The rows of one page: blocks of `bytes`, outer_count x inner_count of them. Neighbouring rows are
// one block, whatever their order in the value: only their bytes matter here.
struct PageRows {
  std::uint64_t bytes;
  std::uint64_t inner_count, inner_stride;
  std::uint64_t outer_count, outer_stride;

  std::uint64_t count() const { return inner_count * outer_count; }
  std::uint64_t extent() const {
    return (inner_count - 1) * inner_stride + (outer_count - 1) * outer_stride + bytes;
  }
};

// nullopt: rows of the part overlap each other. Only what can be told from one dimension; the
// search finds the rest.
std::optional<PageRows> page_rows(const KvPart& part) {
  PageRows rows{part.row_bytes, part.heads, part.head_stride, part.tokens, part.token_stride};
  if (rows.inner_count == 1 || (rows.outer_count > 1 && rows.outer_stride < rows.inner_stride)) {
    std::swap(rows.inner_count, rows.outer_count);
    std::swap(rows.inner_stride, rows.outer_stride);
  }
  for (int dimension = 0; dimension < 2 && rows.inner_count > 1; ++dimension) {
    if (rows.inner_stride < rows.bytes) return std::nullopt;
    if (rows.inner_stride > rows.bytes) break;
    rows.bytes *= rows.inner_count;
    rows.inner_count = rows.outer_count;
    rows.inner_stride = rows.outer_stride;
    rows.outer_count = 1;
  }
  if (rows.inner_count == 1) rows.inner_stride = 0;
  if (rows.outer_count == 1) rows.outer_stride = 0;
  if (part.pages > 1 && part.page_stride < rows.bytes) return std::nullopt;
  return rows;
}

PageRows hull(const PageRows& rows) {
  return {rows.extent(), 1, 0, 1, 0};
}

std::uint64_t extent_end(const KvPart& part, const PageRows& rows) {
  return part.base + (part.pages - 1) * part.page_stride + rows.extent();
}

// Bytes [begin, end) after a multiple of the stride, at the multiples [first_page, end_page).
struct Rectangle {
  std::uint64_t begin, end;
  std::uint64_t first_page, end_page;
  std::size_t part;
};

void add_block(std::uint64_t address, std::uint64_t bytes, std::uint64_t pages, std::size_t part,
               std::uint64_t stride, std::vector<Rectangle>& rectangles) {
  std::uint64_t page = address / stride;
  std::uint64_t begin = address % stride;
  if (begin + bytes > stride && begin > 0) {
    rectangles.push_back({begin, stride, page, page + pages, part});
    bytes -= stride - begin;
    begin = 0;
    ++page;
  }
  if (const std::uint64_t whole = bytes / stride; whole > 0) {  // longer: only a single page may be
    rectangles.push_back({0, stride, page, page + whole + pages - 1, part});
    page += whole;
    bytes %= stride;
    begin = 0;
  }
  if (bytes > 0) rectangles.push_back({begin, begin + bytes, page, page + pages, part});
}

// Sweeps over the residues. What is open at one residue has disjoint page ranges, so a new
// rectangle can only cross its neighbours in the order of pages.
std::optional<PartOverlap> crossing(const std::vector<Rectangle>& rectangles) {
  struct Event {
    std::uint64_t at;
    bool opens;
    std::size_t rectangle;
  };
  std::vector<Event> events;
  events.reserve(2 * rectangles.size());
  for (std::size_t i = 0; i < rectangles.size(); ++i) {
    events.push_back({rectangles[i].begin, true, i});
    events.push_back({rectangles[i].end, false, i});
  }
  std::ranges::sort(events, [](const Event& a, const Event& b) {
    return std::tie(a.at, a.opens, a.rectangle) < std::tie(b.at, b.opens, b.rectangle);
  });
  std::map<std::uint64_t, std::size_t> open;  // by first page
  for (const Event& event : events) {
    const Rectangle& rectangle = rectangles[event.rectangle];
    if (!event.opens) {
      open.erase(rectangle.first_page);
      continue;
    }
    const auto next = open.lower_bound(rectangle.first_page);
    if (next != open.end() && next->first < rectangle.end_page) {
      return PartOverlap{rectangles[next->second].part, rectangle.part};
    }
    if (next != open.begin()) {
      const Rectangle& before = rectangles[std::prev(next)->second];
      if (before.end_page > rectangle.first_page) return PartOverlap{before.part, rectangle.part};
    }
    open.emplace_hint(next, rectangle.first_page, event.rectangle);
  }
  return std::nullopt;
}

std::optional<PartOverlap> overlap_of_one_stride(std::span<const KvPart> parts,
                                                 std::span<const PageRows> rows,
                                                 std::span<const std::size_t> members,
                                                 std::uint64_t stride) {
  std::vector<Rectangle> rectangles;
  for (const std::size_t i : members) {
    const KvPart& part = parts[i];
    const PageRows& of = rows[i];
    if (part.pages > 1 && of.bytes > stride) return PartOverlap{i, i};  // a hull
    for (std::uint64_t outer = 0; outer < of.outer_count; ++outer) {
      for (std::uint64_t inner = 0; inner < of.inner_count; ++inner) {
        add_block(part.base + outer * of.outer_stride + inner * of.inner_stride, of.bytes,
                  part.pages, i, stride, rectangles);
      }
    }
  }
  return crossing(rectangles);
}

// Extents of parts of different strides that meet. Requires: parts of one stride share no byte.
std::optional<PartOverlap> overlap_of_extents(std::span<const KvPart> parts,
                                              std::span<const PageRows> rows,
                                              std::span<const std::uint64_t> strides) {
  struct Extent {
    std::uint64_t begin, end;
    std::size_t part;
  };
  std::vector<Extent> extents;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    extents.push_back({parts[i].base, extent_end(parts[i], rows[i]), i});
  }
  std::ranges::sort(extents, {}, &Extent::begin);
  // The extent that reaches farthest, for each of two different strides: one of them is not ours.
  const Extent* farthest = nullptr;
  const Extent* farthest_of_others = nullptr;
  for (const Extent& extent : extents) {
    for (const Extent* before : {farthest, farthest_of_others}) {
      if (before != nullptr && strides[before->part] != strides[extent.part] &&
          before->end > extent.begin) {
        return PartOverlap{before->part, extent.part, false};
      }
    }
    if (farthest == nullptr || extent.end > farthest->end) {
      if (farthest != nullptr && strides[farthest->part] != strides[extent.part]) {
        farthest_of_others = farthest;
      }
      farthest = &extent;
    } else if (strides[farthest->part] != strides[extent.part] &&
               (farthest_of_others == nullptr || extent.end > farthest_of_others->end)) {
      farthest_of_others = &extent;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<PartOverlap> find_overlap(std::span<const KvPart> parts, std::uint64_t most_rows) {
  std::vector<PageRows> rows;
  std::uint64_t rows_left = most_rows;
  bool look_inside = true;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::optional<PageRows> of_part = page_rows(parts[i]);
    if (!of_part) return PartOverlap{i, i};
    rows.push_back(*of_part);
    look_inside = look_inside && of_part->count() <= rows_left;
    if (look_inside) rows_left -= of_part->count();
  }
  if (!look_inside) std::ranges::transform(rows, rows.begin(), hull);

  std::vector<std::uint64_t> strides;
  std::map<std::uint64_t, std::vector<std::size_t>> by_stride;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    // A single page fits any stride: one beyond all addresses makes it an ordinary interval.
    const std::uint64_t stride = parts[i].pages > 1 ? parts[i].page_stride : std::uint64_t{1} << 63;
    strides.push_back(stride);
    by_stride[stride].push_back(i);
  }
  for (const auto& [stride, members] : by_stride) {
    if (auto overlap = overlap_of_one_stride(parts, rows, members, stride)) {
      overlap->certain = look_inside;
      return overlap;
    }
  }
  return overlap_of_extents(parts, rows, strides);
}

}  // namespace orlop::gpu
