// SPDX-License-Identifier: Apache-2.0
#include "gpu/compiled_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "gpu/engine_layouts.h"

namespace orlop::gpu {
namespace {

using testing::AllOf;
using testing::HasSubstr;

CompiledLayout compiled(const KvLayout& layout) {
  const Result<std::uint64_t> bytes = value_bytes(layout);
  EXPECT_TRUE(bytes.has_value()) << bytes.error().message;
  Result<CompiledLayout> result = CompiledLayout::compile(layout, *bytes);
  EXPECT_TRUE(result.has_value()) << result.error().message;
  return *std::move(result);
}

// What compiling makes of part 0, and where part 1 begins.
struct Row {
  const char* name;
  KvLayout layout;
  std::uint64_t value_bytes;
  std::uint32_t heads, tokens;  // of part 0, after merging
  std::uint64_t row_bytes;
  std::uint32_t alignment = 16;
};

std::vector<Row> rows() {
  const std::uint64_t half = kHalfBlock;
  return {
      {"sglang_1", sglang_layout(1), 8 * 4 * half, 8, 1, 256},
      {"sglang_64", sglang_layout(64), 8 * 4 * half, 8, 64, 256},
      {"vllm_two_blocks_nhd", vllm_two_blocks_nhd(), 8 * half, 8, 16, 256},
      {"vllm_blocks_two_nhd", vllm_blocks_two_nhd(), 8 * half, 8, 16, 256},
      // Value and page agree: one piece a page.
      {"vllm_blocks_two_hnd", vllm_blocks_two_hnd(), 8 * half, 1, 1, half},
      {"packed_channels", packed_channels(), 8 * half, 8, 16, 256},
      {"across_layers", across_layers(), 8 * half, 8, 16, 256},
      {"heads_outside", heads_outside(), 8 * half, 8, 1, 16 * 256},
      {"latent_bf16", latent(1'152), 4 * 64 * 1'152, 1, 1, 64 * 1'152},
      {"latent_fp8", latent(656), 4 * 64 * 656, 1, 1, 64 * 656},
      {"hybrid", hybrid(), 2 * (4 * half + half + 20'000), 8, 1, 16 * 256},
      {"opaque", opaque_block(), 1 << 20, 1, 1, 1 << 20},
  };
}

class EngineLayouts : public testing::TestWithParam<Row> {};
INSTANTIATE_TEST_SUITE_P(Table, EngineLayouts, testing::ValuesIn(rows()),
                         [](const testing::TestParamInfo<Row>& row) {
                           return std::string(row.param.name);
                         });

TEST_P(EngineLayouts, Compile_with_their_rows_merged) {
  const Row& row = GetParam();
  const CompiledLayout layout = compiled(row.layout);
  EXPECT_EQ(layout.value_len(), row.value_bytes);
  EXPECT_EQ(layout.alignment(), row.alignment);
  ASSERT_EQ(layout.parts().size(), row.layout.parts.size());
  const CompiledPart& part = layout.parts()[0];
  EXPECT_EQ(part.heads, row.heads);
  EXPECT_EQ(part.tokens, row.tokens);
  EXPECT_EQ(part.row_bytes, row.row_bytes);
  EXPECT_EQ(part.heads == 1 ? 0 : row.layout.parts[0].head_stride, part.head_stride);
  EXPECT_EQ(part.tokens == 1 ? 0 : row.layout.parts[0].token_stride, part.token_stride);
  std::uint64_t offset = 0;
  for (const CompiledPart& each : layout.parts()) {
    EXPECT_EQ(each.value_offset, offset);
    EXPECT_EQ(each.bytes, each.row_bytes * each.heads * each.tokens * each.pages_per_value);
    offset += each.bytes;
  }
  EXPECT_EQ(offset, row.value_bytes);
}

TEST(CompiledLayout, A_part_that_is_moved_over_its_neighbour_is_refused) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.name);
    KvLayout layout = row.layout;
    if (layout.parts.size() == 1) layout.parts.push_back(layout.parts[0]);
    layout.parts[1].base = layout.parts[0].base + layout.parts[0].row_bytes - 1;
    const Result<CompiledLayout> result = CompiledLayout::compile(layout, row.value_bytes);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(result.error().message, AllOf(HasSubstr("'" + layout.parts[0].name + "'"),
                                              HasSubstr("'" + layout.parts[1].name + "'")));
  }
}

// Tensors back to back: a page more than the first has belongs to the second.
TEST(CompiledLayout, One_page_too_many_meets_what_follows) {
  for (KvLayout layout :
       {sglang_layout(1), sglang_layout(64), vllm_two_blocks_nhd(), latent(1'152), latent(656)}) {
    const std::uint64_t bytes = *value_bytes(layout);
    ASSERT_TRUE(CompiledLayout::compile(layout, bytes).has_value());
    layout.parts[0].pages += 1;
    const Result<CompiledLayout> result = CompiledLayout::compile(layout, bytes);
    ASSERT_FALSE(result.has_value());
    EXPECT_THAT(result.error().message, AllOf(HasSubstr("'" + layout.parts[0].name + "'"),
                                              HasSubstr("'" + layout.parts[1].name + "'")));
  }
}

struct Wrong {
  const char* name;
  std::function<void(KvLayout&)> damage;
  const char* message;
};

std::vector<Wrong> wrongs() {
  constexpr auto kHuge = std::numeric_limits<std::uint64_t>::max() / 3;
  return {
      {"no_parts", [](KvLayout& l) { l.parts.clear(); }, "0 parts"},
      {"no_pools", [](KvLayout& l) { l.pools.clear(); }, "0 pools"},
      {"many_pools", [](KvLayout& l) { l.pools.resize(65); }, "65 pools"},
      {"no_pages_per_value", [](KvLayout& l) { l.pools[0].pages_per_value = 0; },
       "pages_per_value is 0"},
      {"many_pages_per_value", [](KvLayout& l) { l.pools[0].pages_per_value = 65'536; }, "65536"},
      {"unknown_pool", [](KvLayout& l) { l.parts[3].pool = 1; }, "'layers.1.v': pool 1 of 1"},
      {"layers_out_of_order", [](KvLayout& l) { l.parts[3].layer = 0; },
       "'layers.1.v': layer 0 after layer 1"},
      {"huge_layer", [](KvLayout& l) { l.parts[7].layer = 1u << 20; },
       "'layers.3.v': layer 1048576"},
      {"no_rows", [](KvLayout& l) { l.parts[2].row_bytes = 0; },
       "'layers.1.k': pages, heads, tokens and row_bytes"},
      {"no_heads", [](KvLayout& l) { l.parts[2].heads = 0; }, "'layers.1.k'"},
      {"no_tokens", [](KvLayout& l) { l.parts[2].tokens = 0; }, "'layers.1.k'"},
      {"no_pages", [](KvLayout& l) { l.parts[2].pages = 0; }, "'layers.1.k'"},
      {"null_base", [](KvLayout& l) { l.parts[5].base = 0; }, "'layers.2.v': base is null"},
      {"pages_past_the_end", [](KvLayout& l) { l.parts[5].pages = kHuge; },
       "'layers.2.v': ends beyond"},
      {"stride_past_the_end", [](KvLayout& l) { l.parts[5].page_stride = kHuge; },
       "'layers.2.v': ends beyond"},
      {"negative_stride", [](KvLayout& l) { l.parts[5].token_stride = ~std::uint64_t{0} - 511; },
       "not negative"},
      {"huge_row", [](KvLayout& l) { l.parts[5].row_bytes = kHuge * 2; },
       "'layers.2.v': ends beyond"},
      {"tokens_overlap", [](KvLayout& l) { l.parts[1].token_stride = 255; },
       "'layers.0.v': its rows overlap"},
      {"heads_overlap", [](KvLayout& l) { l.parts[1].head_stride = 0; },
       "'layers.0.v': its rows overlap"},
      {"pages_overlap", [](KvLayout& l) { l.parts[1].page_stride = kHalfBlock - 1; },
       "layers.0.v'"},
      {"same_page", [](KvLayout& l) { l.parts[1].page_stride = 0; },
       "'layers.0.v': its rows overlap"},
      {"same_tensor", [](KvLayout& l) { l.parts[4].base = l.parts[3].base; },
       "'layers.1.v' and part 4 'layers.2.k'"},
  };
}

TEST(CompiledLayout, Wrong_layouts_are_refused_by_the_part_s_name) {
  for (const Wrong& wrong : wrongs()) {
    SCOPED_TRACE(wrong.name);
    KvLayout layout = vllm_two_blocks_nhd();
    wrong.damage(layout);
    const Result<CompiledLayout> result = CompiledLayout::compile(layout, 8 * kHalfBlock);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(result.error().message, HasSubstr(wrong.message));
  }
}

TEST(CompiledLayout, Wrong_value_length_names_both_numbers) {
  const Result<CompiledLayout> result = CompiledLayout::compile(vllm_two_blocks_nhd(), 262'143);
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().message, AllOf(HasSubstr("262,144"), HasSubstr("262,143")));
}

TEST(CompiledLayout, Value_longer_than_any_memory_is_refused) {
  KvLayout layout = opaque_block();
  layout.parts[0].pages = 1;
  layout.parts[0].row_bytes = std::uint64_t{1} << 61;
  layout.pools[0].pages_per_value = 8;
  EXPECT_THAT(value_bytes(layout).error().message, HasSubstr("longer than 2^63"));
}

TEST(CompiledLayout, Too_many_parts_are_refused) {
  KvLayout layout = opaque_block();
  layout.parts.resize(CompiledLayout::kMostParts + 1, layout.parts[0]);
  EXPECT_THAT(value_bytes(layout).error().message, HasSubstr("65537 parts"));
}

// Pages that interleave in a stretch of memory with other strides: refused although no byte is
// shared, as the header says.
TEST(CompiledLayout, Different_page_strides_lie_apart) {
  KvLayout layout = opaque_block();
  layout.parts[0] = {
      .name = "a", .base = 4'096, .pages = 4, .page_stride = 4'096, .row_bytes = 1'024};
  layout.parts.push_back(layout.parts[0]);
  layout.parts[1].name = "b";
  layout.parts[1].base += 1'024;
  layout.parts[1].page_stride = 8'192;
  EXPECT_THAT(CompiledLayout::compile(layout, 2'048).error().message,
              AllOf(HasSubstr("'a'"), HasSubstr("'b'"), HasSubstr("different page strides")));
  layout.parts[1].base += 16'384;
  EXPECT_TRUE(CompiledLayout::compile(layout, 2'048).has_value());
  layout.parts[1].base -= 16'384;
  layout.parts[1].page_stride = 4'096;
  EXPECT_TRUE(CompiledLayout::compile(layout, 2'048).has_value());
}

TEST(CompiledLayout, Strips_follow_layers) {
  const CompiledLayout layout = compiled(vllm_two_blocks_nhd());
  EXPECT_EQ(layout.layers(), 4U);
  const auto all = layout.strip({0, 4});
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(all->begin, 0U);
  EXPECT_EQ(all->end, layout.value_len());
  const auto middle = layout.strip({1, 3});
  ASSERT_TRUE(middle.has_value());
  EXPECT_EQ(middle->begin, 2 * kHalfBlock);
  EXPECT_EQ(middle->end, 6 * kHalfBlock);
  EXPECT_FALSE(layout.strip({2, 2}).has_value());
  EXPECT_FALSE(layout.strip({3, 2}).has_value());
  EXPECT_FALSE(layout.strip({0, 5}).has_value());
}

TEST(CompiledLayout, Layers_without_parts_have_empty_strips) {
  KvLayout layout = vllm_two_blocks_nhd();
  for (KvPart& part : layout.parts) part.layer = 10 + 2 * part.layer;
  const CompiledLayout of_rank = compiled(layout);
  EXPECT_EQ(of_rank.layers(), 17U);
  const auto before = of_rank.strip({0, 10});
  ASSERT_TRUE(before.has_value());
  EXPECT_EQ(before->begin, before->end);
  const auto gap = of_rank.strip({11, 12});
  ASSERT_TRUE(gap.has_value());
  EXPECT_EQ(gap->begin, 2 * kHalfBlock);
  EXPECT_EQ(gap->end, 2 * kHalfBlock);
  EXPECT_EQ(of_rank.strip({11, 13})->end, 4 * kHalfBlock);
}

TEST(CompiledLayout, Alignment_is_of_everything) {
  KvLayout layout = vllm_two_blocks_nhd();
  layout.parts[7].base += 8;
  EXPECT_EQ(compiled(layout).alignment(), 8U);
  layout.parts[7].base += 2;
  EXPECT_EQ(compiled(layout).alignment(), 2U);
  // A row of 100 bytes puts the next part at 4 modulo 8.
  KvLayout rows = latent(100);
  rows.parts[0].tokens = 1;
  EXPECT_EQ(compiled(rows).alignment(), 4U);
}

TEST(CompiledLayout, Rows_are_those_of_a_value) {
  const CompiledLayout layout = compiled(hybrid());
  std::uint64_t rows = 0, bytes = 0;
  for (const CompiledPart& part : layout.parts()) {
    const std::uint64_t of_part = std::uint64_t{part.heads} * part.tokens * part.pages_per_value;
    rows += of_part;
    bytes += of_part * part.row_bytes;
  }
  EXPECT_EQ(bytes, layout.value_len());
  EXPECT_EQ(layout.rows(), rows);
  // Attention has most of the bytes, the state's row of 20,000 the rest.
  EXPECT_EQ(layout.typical_row_bytes(), 16u * 256);
}

TEST(CompiledLayout, Only_copies_have_one_identity) {
  const CompiledLayout first = compiled(opaque_block());
  const CompiledLayout copy = first;
  const CompiledLayout second = compiled(opaque_block());
  EXPECT_EQ(first.identity(), copy.identity());
  EXPECT_NE(first.identity(), second.identity());
}

TEST(CompiledLayout, Pages_are_those_that_every_part_of_the_pool_has) {
  KvLayout layout = hybrid();
  layout.parts[3].pages = 60;
  layout.pools.push_back({"unused", 1});
  const CompiledLayout of_pools = compiled(layout);
  EXPECT_EQ(of_pools.pool_pages(0), 60U);
  EXPECT_EQ(of_pools.pool_pages(1), 100U);
  EXPECT_EQ(of_pools.pool_pages(3), std::uint64_t{std::numeric_limits<std::int64_t>::max()});
}

TEST(CompiledLayout, Token_first_order_merges_heads) {
  KvLayout layout = vllm_two_blocks_nhd();
  layout.order = ValueOrder::kTokenHeadChannel;
  const CompiledPart part = compiled(layout).parts()[0];
  EXPECT_EQ(part.heads, 1U);
  EXPECT_EQ(part.tokens, 1U);
  EXPECT_EQ(part.row_bytes, kHalfBlock);
}

TEST(Describe, Folds_layers_and_names_what_is_merged_and_opaque) {
  EXPECT_EQ(describe(vllm_blocks_two_hnd()),
            "value of 262,144 bytes, order layer, part, head, token, channel\n"
            "pool 0: 1 page a value\n"
            "layers 0 to 3, each\n"
            "  'layers.0.k': pool 0, 8 heads x 16 tokens x 256 B, 1 piece of 32.0 KiB a page "
            "(merged), 100 pages 64.0 KiB apart, 32.0 KiB of the value\n"
            "  'layers.0.v': pool 0, 8 heads x 16 tokens x 256 B, 1 piece of 32.0 KiB a page "
            "(merged), 100 pages 64.0 KiB apart, 32.0 KiB of the value\n");
  EXPECT_THAT(describe(hybrid()), AllOf(HasSubstr("pool 1 'window': 1 page a value"),
                                        HasSubstr("layer 5\n"), HasSubstr("opaque")));
}

TEST(Describe, Wrong_layout_says_why) {
  EXPECT_EQ(describe(KvLayout{}), "no layout: layout: 0 parts; 1 to 65536 are possible\n");
}

}  // namespace
}  // namespace orlop::gpu
