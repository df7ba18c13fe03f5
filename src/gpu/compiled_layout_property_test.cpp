// SPDX-License-Identifier: Apache-2.0
// Compiled layouts against the naive model, which maps every byte of a value to its address.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "gpu/compiled_layout.h"
#include "gpu/conformance/layout_model.h"
#include "gpu/conformance/random_layout.h"

namespace orlop::gpu {
namespace {

using conformance::ValuePages;

// Addresses by the compiled geometry, byte for byte of the value.
std::vector<std::uint64_t> compiled_addresses(const CompiledLayout& layout,
                                              const ValuePages& pages) {
  std::vector<std::uint64_t> addresses(layout.value_len());
  for (const CompiledPart& part : layout.parts()) {
    for (std::uint32_t p = 0; p < part.pages_per_value; ++p) {
      for (std::uint32_t h = 0; h < part.heads; ++h) {
        for (std::uint32_t t = 0; t < part.tokens; ++t) {
          const std::uint64_t in_value =
              part.value_offset + row_in_part(part, layout.order(), p, h, t);
          const auto number = static_cast<std::uint64_t>(pages[part.pool][p]);
          for (std::uint64_t i = 0; i < part.row_bytes; ++i) {
            addresses[in_value + i] = row_in_cache(part, number, h, t) + i;
          }
        }
      }
    }
  }
  return addresses;
}

RC_GTEST_PROP(CompiledLayoutProperty, Bytes_are_where_the_model_says, (std::uint64_t seed)) {
  Rng rng(seed);
  conformance::RandomLayout drawn = conformance::random_layout(
      rng, rng.between(1, 5'000), {.pages = 10, .value_bytes = 24 * 1024});
  const Result<CompiledLayout> layout = CompiledLayout::compile(drawn.layout, drawn.value_len);
  if (!layout) RC_FAIL(layout.error().message);
  ValuePages pages(drawn.layout.pools.size());
  for (std::size_t pool = 0; pool < pages.size(); ++pool) {
    for (std::uint32_t i = 0; i < drawn.layout.pools[pool].pages_per_value; ++i) {
      pages[pool].push_back(static_cast<std::int64_t>(
          rng.uniform(layout->pool_pages(static_cast<std::uint32_t>(pool)))));
    }
  }
  RC_ASSERT(compiled_addresses(*layout, pages) ==
            conformance::addresses_of_value(drawn.layout, pages));
  for (const CompiledPart& part : layout->parts()) {
    RC_ASSERT((part.base | part.page_stride | part.head_stride | part.token_stride |
               part.row_bytes | part.value_offset) %
                  layout->alignment() ==
              0U);
  }
}

// Small parts anywhere over each other: of one page stride they are accepted exactly if no byte has
// two owners.
struct SmallPart {
  std::uint32_t base, pages, heads, head_stride, tokens, token_stride, row_bytes;
};

SmallPart small_part() {
  const auto below = [](int end) { return static_cast<std::uint32_t>(*rc::gen::inRange(0, end)); };
  return {.base = 1 + below(60),
          .pages = 1 + below(4),
          .heads = 1 + below(3),
          .head_stride = below(24),
          .tokens = 1 + below(3),
          .token_stride = below(24),
          .row_bytes = 1 + below(5)};
}

KvLayout small_layout(const std::vector<std::uint32_t>& page_strides) {
  KvLayout layout;
  for (const std::uint32_t page_stride : page_strides) {
    const SmallPart small = small_part();
    layout.parts.push_back({.name = std::to_string(layout.parts.size()),
                            .base = small.base,
                            .pages = small.pages,
                            .page_stride = page_stride,
                            .heads = small.heads,
                            .head_stride = small.head_stride,
                            .tokens = small.tokens,
                            .token_stride = small.token_stride,
                            .row_bytes = small.row_bytes});
  }
  return layout;
}

bool any_byte_twice(const KvLayout& layout) {
  std::set<std::uint64_t> seen;
  for (const KvPart& part : layout.parts) {
    for (std::uint64_t p = 0; p < part.pages; ++p) {
      for (std::uint64_t h = 0; h < part.heads; ++h) {
        for (std::uint64_t t = 0; t < part.tokens; ++t) {
          for (std::uint64_t i = 0; i < part.row_bytes; ++i) {
            const std::uint64_t address =
                part.base + p * part.page_stride + h * part.head_stride + t * part.token_stride + i;
            if (!seen.insert(address).second) return true;
          }
        }
      }
    }
  }
  return false;
}

bool accepted(const KvLayout& layout) {
  return CompiledLayout::compile(layout, *value_bytes(layout)).has_value();
}

RC_GTEST_PROP(CompiledLayoutProperty, One_page_stride_is_accepted_exactly_without_overlap, ()) {
  const auto stride = static_cast<std::uint32_t>(*rc::gen::inRange(1, 50));
  const auto parts = static_cast<std::size_t>(*rc::gen::inRange(1, 4));
  KvLayout layout = small_layout(std::vector<std::uint32_t>(parts, stride));
  // Single pages have no stride and are compared as a group of their own; here all have two or
  // more.
  for (KvPart& part : layout.parts) part.pages += 1;
  const bool overlap = any_byte_twice(layout);
  RC_CLASSIFY(!overlap, "apart");
  RC_ASSERT(accepted(layout) == !overlap);
}

RC_GTEST_PROP(CompiledLayoutProperty, Any_page_strides_are_never_accepted_with_overlap, ()) {
  const auto strides = *rc::gen::container<std::vector<std::uint32_t>>(
      3,
      rc::gen::map(rc::gen::inRange(1, 50), [](int n) { return static_cast<std::uint32_t>(n); }));
  const KvLayout layout = small_layout(strides);
  if (any_byte_twice(layout)) RC_ASSERT(!accepted(layout));
}

}  // namespace
}  // namespace orlop::gpu
