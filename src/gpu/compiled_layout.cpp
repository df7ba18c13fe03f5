// SPDX-License-Identifier: Apache-2.0
#include "gpu/compiled_layout.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <optional>

#include "base/check.h"
#include "base/units.h"
#include "gpu/layout_overlap.h"

namespace orlop::gpu {
namespace {

constexpr std::uint64_t kAddressEnd = std::uint64_t{1} << 63;

// Sums and products that know whether they fit below 2^63.
class Checked {
 public:
  explicit Checked(std::uint64_t value) : value_(value), fits_(value <= kAddressEnd) {}
  Checked& add(std::uint64_t more) {
    fits_ = !__builtin_add_overflow(value_, more, &value_) && fits_ && value_ <= kAddressEnd;
    return *this;
  }
  Checked& add_product(std::uint64_t a, std::uint64_t b) {
    std::uint64_t product = 0;
    fits_ = !__builtin_mul_overflow(a, b, &product) && fits_;
    return add(product);
  }
  Checked& times(std::uint64_t factor) {
    fits_ = !__builtin_mul_overflow(value_, factor, &value_) && fits_ && value_ <= kAddressEnd;
    return *this;
  }
  std::optional<std::uint64_t> value() const {
    return fits_ ? std::optional(value_) : std::nullopt;
  }

 private:
  std::uint64_t value_;
  bool fits_;
};

std::string part_name(const KvLayout& layout, std::size_t i) {
  const std::string& name = layout.parts[i].name;
  return "part " + std::to_string(i) + (name.empty() ? "" : " '" + name + "'");
}

std::string pool_name(std::span<const KvPool> pools, std::size_t i) {
  const std::string& name = pools[i].name;
  return "pool " + std::to_string(i) + (name.empty() ? "" : " '" + name + "'");
}

std::unexpected<Error> refuse(const std::string& what) {
  return fail(ErrorCode::kInvalidArgument, "layout: " + what);
}

Result<void> check_pools(const KvLayout& layout) {
  if (layout.pools.empty() || layout.pools.size() > CompiledLayout::kMostPools) {
    return refuse(std::to_string(layout.pools.size()) + " pools; 1 to " +
                  std::to_string(CompiledLayout::kMostPools) + " are possible");
  }
  for (std::size_t i = 0; i < layout.pools.size(); ++i) {
    const std::uint32_t pages = layout.pools[i].pages_per_value;
    if (pages == 0 || pages > CompiledLayout::kMostPagesPerValue) {
      return refuse(pool_name(layout.pools, i) + ": pages_per_value is " + std::to_string(pages) +
                    "; 1 to " + std::to_string(CompiledLayout::kMostPagesPerValue) +
                    " are possible");
    }
  }
  return {};
}

Result<void> check_part(const KvLayout& layout, std::size_t i) {
  const KvPart& part = layout.parts[i];
  const auto refuse_part = [&](const std::string& what) {
    return refuse(part_name(layout, i) + ": " + what);
  };
  if (part.pool >= layout.pools.size()) {
    return refuse_part("pool " + std::to_string(part.pool) + " of " +
                       std::to_string(layout.pools.size()) + "; pools are numbered from 0");
  }
  if (part.layer >= CompiledLayout::kMostLayers) {
    return refuse_part("layer " + std::to_string(part.layer) + "; layers are below " +
                       std::to_string(CompiledLayout::kMostLayers));
  }
  if (i > 0 && part.layer < layout.parts[i - 1].layer) {
    return refuse_part("layer " + std::to_string(part.layer) + " after layer " +
                       std::to_string(layout.parts[i - 1].layer) +
                       "; sort the parts by layer, a range of layers is one strip of the value");
  }
  if (part.row_bytes == 0 || part.heads == 0 || part.tokens == 0 || part.pages == 0) {
    return refuse_part("pages, heads, tokens and row_bytes are at least 1 (" +
                       std::to_string(part.pages) + ", " + std::to_string(part.heads) + ", " +
                       std::to_string(part.tokens) + ", " + std::to_string(part.row_bytes) + ")");
  }
  if (part.base == 0) {
    return refuse_part("base is null; give the address of page 0 (is the tensor empty?)");
  }
  Checked end(part.base);
  end.add_product(part.pages - 1, part.page_stride);
  if (part.heads > 1) end.add_product(part.heads - 1, part.head_stride);
  if (part.tokens > 1) end.add_product(part.tokens - 1, part.token_stride);
  if (!end.add(part.row_bytes).value()) {
    return refuse_part(
        "ends beyond address 2^63; strides are in bytes and not negative, pages is the length of "
        "the tensor");
  }
  return {};
}

Result<void> check_parts(const KvLayout& layout) {
  if (layout.parts.empty() || layout.parts.size() > CompiledLayout::kMostParts) {
    return refuse(std::to_string(layout.parts.size()) + " parts; 1 to " +
                  std::to_string(CompiledLayout::kMostParts) + " are possible");
  }
  for (std::size_t i = 0; i < layout.parts.size(); ++i) {
    if (Result<void> right = check_part(layout, i); !right) return right;
  }
  return {};
}

Result<void> check_overlap(const KvLayout& layout) {
  const std::optional<PartOverlap> overlap =
      find_overlap(layout.parts, CompiledLayout::kMostRowsLookedAt);
  if (!overlap) return {};
  if (overlap->first == overlap->second) {
    return refuse(part_name(layout, overlap->first) +
                  (overlap->certain
                       ? ": its rows overlap; a stride is smaller than what it steps over"
                       : ": its pages interleave and have too many rows to look at each"));
  }
  return refuse(part_name(layout, overlap->first) + " and " + part_name(layout, overlap->second) +
                (overlap->certain
                     ? " share bytes; check base, strides and pages (components that share memory "
                       "belong into namespaces and layouts of their own)"
                     : " lie in the same stretch of memory with different page strides; they must "
                       "lie apart or have one page stride"));
}

std::optional<std::uint64_t> part_bytes(const KvLayout& layout, const KvPart& part) {
  return Checked(part.row_bytes)
      .times(part.heads)
      .times(part.tokens)
      .times(layout.pools[part.pool].pages_per_value)
      .value();
}

Result<std::uint64_t> all_bytes(const KvLayout& layout) {
  Checked sum(0);
  for (std::size_t i = 0; i < layout.parts.size(); ++i) {
    const std::optional<std::uint64_t> bytes = part_bytes(layout, layout.parts[i]);
    if (!bytes || !sum.add(*bytes).value()) {
      return refuse(part_name(layout, i) + ": the value would be longer than 2^63 bytes");
    }
  }
  return *sum.value();
}

// Rows that lie side by side in the cache and in the value become one row.
void merge_rows(CompiledPart& part, ValueOrder order) {
  const auto merge_tokens = [&] {
    if (part.tokens > 1 && part.token_stride == part.row_bytes) {
      part.row_bytes *= part.tokens;
      part.tokens = 1;
    }
  };
  const auto merge_heads = [&] {
    if (part.heads > 1 && part.head_stride == part.row_bytes) {
      part.row_bytes *= part.heads;
      part.heads = 1;
    }
  };
  if (order == ValueOrder::kHeadTokenChannel) {
    merge_tokens();
    // In the value a head's tokens of all pages come before the next head.
    if (part.tokens == 1 && part.pages_per_value == 1) merge_heads();
  } else {
    merge_heads();
    if (part.heads == 1) merge_tokens();
  }
  if (part.heads == 1) part.head_stride = 0;
  if (part.tokens == 1) part.token_stride = 0;
}

CompiledPart compile_part(const KvLayout& layout, const KvPart& part, std::uint64_t value_offset) {
  CompiledPart compiled{.value_offset = value_offset,
                        .bytes = *part_bytes(layout, part),
                        .base = part.base,
                        .page_stride = part.pages > 1 ? part.page_stride : 0,
                        .heads = part.heads,
                        .head_stride = part.head_stride,
                        .tokens = part.tokens,
                        .token_stride = part.token_stride,
                        .row_bytes = part.row_bytes,
                        .pages_per_value = layout.pools[part.pool].pages_per_value,
                        .pool = part.pool,
                        .layer = part.layer};
  merge_rows(compiled, layout.order);
  return compiled;
}

std::uint32_t alignment_of(std::span<const CompiledPart> parts) {
  std::uint64_t bits = 16;
  for (const CompiledPart& part : parts) {
    bits |= part.value_offset | part.base | part.page_stride | part.head_stride |
            part.token_stride | part.row_bytes;
  }
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

std::uint64_t typical_row(std::span<const CompiledPart> parts, std::uint64_t value_len) {
  std::vector<const CompiledPart*> by_row;
  for (const CompiledPart& part : parts) by_row.push_back(&part);
  std::ranges::sort(by_row, {}, [](const CompiledPart* part) { return part->row_bytes; });
  std::uint64_t seen = 0;
  for (const CompiledPart* part : by_row) {
    seen += part->bytes;
    if (2 * seen >= value_len) return part->row_bytes;
  }
  return by_row.empty() ? 0 : by_row.back()->row_bytes;
}

std::uint64_t next_identity() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

Result<std::uint64_t> value_bytes(const KvLayout& layout) {
  if (Result<void> right = check_pools(layout); !right) return std::unexpected(right.error());
  if (Result<void> right = check_parts(layout); !right) return std::unexpected(right.error());
  return all_bytes(layout);
}

Result<CompiledLayout> CompiledLayout::compile(const KvLayout& layout, std::uint64_t value_len) {
  const Result<std::uint64_t> bytes = value_bytes(layout);
  if (!bytes) return std::unexpected(bytes.error());
  if (Result<void> right = check_overlap(layout); !right) return std::unexpected(right.error());
  if (*bytes != value_len) {
    return refuse("its parts are " + format_count(*bytes) +
                  " bytes a value, the namespace's value_len is " + format_count(value_len) +
                  "; check pages_per_value, the number of layers and the dtype");
  }
  CompiledLayout compiled;
  compiled.value_len_ = value_len;
  compiled.order_ = layout.order;
  compiled.pools_ = layout.pools;
  compiled.pool_pages_.assign(layout.pools.size(), std::numeric_limits<std::int64_t>::max());
  std::uint64_t offset = 0;
  for (const KvPart& part : layout.parts) {
    compiled.parts_.push_back(compile_part(layout, part, offset));
    offset += compiled.parts_.back().bytes;
    std::uint64_t& pages = compiled.pool_pages_[part.pool];
    pages = std::min(pages, part.pages);
  }
  CHECK(offset == value_len);
  compiled.alignment_ = alignment_of(compiled.parts_);
  for (const CompiledPart& part : compiled.parts_) compiled.rows_ += part.bytes / part.row_bytes;
  compiled.typical_row_bytes_ = typical_row(compiled.parts_, value_len);
  compiled.identity_ = next_identity();
  return compiled;
}

std::uint32_t CompiledLayout::layers() const {
  return parts_.back().layer + 1;
}

Result<CompiledLayout::Strip> CompiledLayout::strip(LayerRange range) const {
  if (range.first >= range.end || range.end > layers()) {
    return refuse("layers [" + std::to_string(range.first) + ", " + std::to_string(range.end) +
                  ") of " + std::to_string(layers()) +
                  "; a range has at least one layer and ends at the last");
  }
  const auto offset = [&](std::uint32_t layer) {
    const auto part = std::ranges::lower_bound(parts_, layer, {}, &CompiledPart::layer);
    return part == parts_.end() ? value_len_ : part->value_offset;
  };
  return Strip{offset(range.first), offset(range.end)};
}

std::uint64_t CompiledLayout::pool_pages(std::uint32_t pool) const {
  CHECK(pool < pool_pages_.size());
  return pool_pages_[pool];
}

Result<void> CompiledLayout::check_pages(
    std::size_t values, std::span<const std::span<const std::int64_t>> pages) const {
  if (pages.size() != pools_.size()) {
    return fail(ErrorCode::kInvalidArgument,
                "pages: " + std::to_string(pages.size()) + " lists; the layout has " +
                    std::to_string(pools_.size()) + " pools, one list each");
  }
  for (std::size_t pool = 0; pool < pools_.size(); ++pool) {
    const std::uint32_t each = pools_[pool].pages_per_value;
    if (pages[pool].size() / each != values || pages[pool].size() % each != 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "pages of " + pool_name(pools_, pool) + ": " +
                      std::to_string(pages[pool].size()) + " numbers; " + std::to_string(values) +
                      " values take " + std::to_string(each) + " each");
    }
    for (std::size_t i = 0; i < pages[pool].size(); ++i) {
      const std::int64_t number = pages[pool][i];
      if (number < 0 || static_cast<std::uint64_t>(number) >= pool_pages_[pool]) {
        return fail(ErrorCode::kInvalidArgument,
                    "pages of " + pool_name(pools_, pool) + ": number " + std::to_string(number) +
                        " at index " + std::to_string(i) + "; the pool's smallest part has " +
                        std::to_string(pool_pages_[pool]) + " pages");
      }
    }
  }
  return {};
}

}  // namespace orlop::gpu
