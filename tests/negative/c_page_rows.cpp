// SPDX-License-Identifier: Apache-2.0
// Arguments of page caches from C: layouts that are not there, counts, kinds, page numbers, ranges.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "c_paged.h"

namespace orlop::negative_test {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;
constexpr std::size_t kHuge = std::numeric_limits<std::size_t>::max();

// The cache is not opened, and the result says so.
Row open_row(std::string name, std::vector<std::string> says, PagedCall call) {
  return paged_row(std::move(name), kInvalid, std::move(says), [call = std::move(call)](Paged& p) {
    p.cache = reinterpret_cast<orlop_page_cache*>(&p);  // must be overwritten
    const orlop_status status = call(p);
    EXPECT_EQ(p.cache, nullptr);
    return status;
  });
}
Row layout_row(std::string name, std::vector<std::string> says, std::function<void(Paged&)> spoil) {
  return open_row(std::move(name), std::move(says), [spoil = std::move(spoil)](Paged& p) {
    spoil(p);
    return p.open();
  });
}

Rows layout_rows() {
  return {
      open_row("layout_null", {"layout", "NULL"},
               [](Paged& p) {
                 return orlop_page_cache_open(p.client, nullptr, kValueLen, nullptr, &p.cache);
               }),
      layout_row("layout_size_0", {"layout.struct_size", "is 0", "sizeof"},
                 [](Paged& p) { p.layout.struct_size = 0; }),
      layout_row("layout_garbage_size", {"layout.struct_size", std::to_string(kHuge)},
                 [](Paged& p) { p.layout.struct_size = kHuge; }),
      layout_row("layout_parts_null", {"parts", "NULL", "4 entries"},
                 [](Paged& p) { p.layout.parts = nullptr; }),
      layout_row("layout_parts_huge_count", {"parts", std::to_string(kHuge), "65536"},
                 [](Paged& p) { p.layout.part_count = kHuge; }),
      layout_row("layout_no_parts", {"0 parts"}, [](Paged& p) { p.layout.part_count = 0; }),
      layout_row("layout_pools_huge_count", {"pools", std::to_string(kHuge), "64"},
                 [](Paged& p) { p.layout.pool_count = kHuge; }),
      layout_row("layout_order", {"order", "77"}, [](Paged& p) { p.layout.order = 77; }),
      layout_row("part_name_null_with_a_length", {"parts[2].name", "NULL", "9"},
                 [](Paged& p) { p.parts[2].name = {nullptr, 9}; }),
      layout_row("part_of_no_pool", {"pool 5 of 1"}, [](Paged& p) { p.parts[1].pool = 5; }),
      layout_row("part_without_rows", {"row_bytes"}, [](Paged& p) { p.parts[3].row_bytes = 0; }),
      layout_row("part_beyond_the_address_space", {"part"},
                 [](Paged& p) { p.parts[0].pages = std::uint64_t{1} << 62; }),
      layout_row("part_over_another", {"part"},
                 [](Paged& p) { p.parts[1].base = p.parts[0].base + 128; }),
      layout_row("part_in_memory_that_is_not_there", {"address 64", "not memory of this process"},
                 [](Paged& p) {
                   for (std::size_t i = 0; i < p.parts.size(); ++i) p.parts[i].base = i * 1024 + 64;
                 }),
      layout_row("value_of_another_length", {"2,048", "4,096"},
                 [](Paged& p) { p.layout.part_count = 2; }),
      paged_row("layout_value_len_of_nothing", kInvalid, {"bytes", "NULL"},
                [](Paged& p) { return orlop_layout_value_len(&p.layout, nullptr); }),
  };
}

Rows option_rows() {
  const auto with = [](std::string name, std::vector<std::string> says,
                       std::function<void(orlop_page_cache_options&)> spoil) {
    return open_row(std::move(name), std::move(says), [spoil = std::move(spoil)](Paged& p) {
      auto options = sized<orlop_page_cache_options>();
      spoil(options);
      return p.open(&options);
    });
  };
  return {
      with("cache_options_too_small", {"options.struct_size", "is 8"},
           [](auto& options) { options.struct_size = 8; }),
      with("cache_engine_of_no_number", {"engine", "is 99"},
           [](auto& options) { options.engine = 99; }),
      with("cache_engine_for_memory_of_the_cpu", {"'staged'", "'host'"},
           [](auto& options) { options.engine = ORLOP_ENGINE_STAGED; }),
      with("cache_unknown_flag", {"flags", "6"}, [](auto& options) { options.flags = 7; }),
      with("cache_backup_burst_too_short", {"backup_burst_bytes", "65535", "65536"},
           [](auto& options) { options.backup_burst_bytes = 65'535; }),
      with("cache_device_negative", {"device", "negative"},
           [](auto& options) {
             options.flags = ORLOP_PAGE_CACHE_DEVICE;
             options.device = -1;
           }),
  };
}

// Of a put that is open: refused, and the plan is the caller's as before.
Row backup_row(std::string name, ErrorCode code, std::vector<std::string> says, PagedCall call) {
  return paged_row(name, code, std::move(says), [name, call = std::move(call)](Paged& p) {
    EXPECT_EQ(p.open(), ORLOP_OK) << orlop_error_message();
    p.start_put(name);
    const orlop_status status = call(p);
    EXPECT_EQ(p.backup, nullptr);
    EXPECT_EQ(orlop_put_plan_prepared(p.plan), 2U);
    return status;
  });
}

Rows backup_rows() {
  return {
      backup_row(
          "backup_items_null", kInvalid, {"items", "NULL", "1"},
          [](Paged& p) { return orlop_backup_pages(p.cache, nullptr, 1, nullptr, &p.backup); }),
      backup_row("backup_items_huge_count", kInvalid, {"items", std::to_string(kHuge), "65536"},
                 [](Paged& p) { return p.back_up(kHuge); }),
      backup_row("backup_of_no_plan", ErrorCode::kWrongState,
                 {"items[0].plan", "is a page cache, give a put plan"},
                 [](Paged& p) {
                   p.put.plan = reinterpret_cast<orlop_put_plan*>(p.cache);
                   return p.back_up();
                 }),
      backup_row("backup_of_one_plan_twice", kInvalid, {"items[1]", "twice"},
                 [](Paged& p) {
                   const std::array<orlop_backup_item, 2> items{p.put, p.put};
                   return orlop_backup_pages(p.cache, items.data(), 2, nullptr, &p.backup);
                 }),
      backup_row("backup_lists_null", kInvalid, {"items[0].lists", "NULL"},
                 [](Paged& p) {
                   p.put.lists = nullptr;
                   return p.back_up();
                 }),
      backup_row("backup_lists_huge_count", kInvalid, {"items[0].lists", std::to_string(kHuge)},
                 [](Paged& p) {
                   p.put.list_count = kHuge;
                   return p.back_up();
                 }),
      backup_row("backup_list_of_another_pool", kInvalid, {"items[0]", "2 lists", "1 pools"},
                 [](Paged& p) {
                   const std::array<orlop_page_list, 2> lists{p.list, p.list};
                   p.put.lists = lists.data();
                   p.put.list_count = 2;
                   return p.back_up();
                 }),
      backup_row("backup_pages_null", kInvalid, {"items[0].lists[0].pages", "NULL", "2"},
                 [](Paged& p) {
                   p.list.pages = nullptr;
                   return p.back_up();
                 }),
      backup_row("backup_pages_huge_count", kInvalid, {"items[0]", std::to_string(kHuge)},
                 [](Paged& p) {
                   p.list.count = kHuge;
                   return p.back_up();
                 }),
      backup_row("backup_page_negative", kInvalid, {"items[0]", "number -1 at index 1"},
                 [](Paged& p) {
                   p.numbers[1] = -1;
                   return p.back_up();
                 }),
      backup_row("backup_page_beyond_the_cache", kInvalid, {"items[0]", "number 8", "8 pages"},
                 [](Paged& p) {
                   p.numbers[0] = kEnginePages;
                   return p.back_up();
                 }),
      backup_row("backup_page_beyond_all", kInvalid, {"items[0]", "index 0"},
                 [](Paged& p) {
                   p.numbers[0] = std::numeric_limits<std::int64_t>::max();
                   return p.back_up();
                 }),
  };
}

// Of a read plan that is open: refused, and no byte of the cache has changed.
Row restore_row(std::string name, ErrorCode code, std::vector<std::string> says, PagedCall call) {
  return paged_row(name, code, std::move(says), [name, call = std::move(call)](Paged& p) {
    EXPECT_EQ(p.open(), ORLOP_OK) << orlop_error_message();
    p.start_get(name);
    std::ranges::fill(p.memory, std::byte{0x5a});
    p.restore = reinterpret_cast<orlop_restore*>(&p);  // must be overwritten
    const orlop_status status = call(p);
    EXPECT_EQ(p.restore, nullptr);
    EXPECT_TRUE(std::ranges::all_of(p.memory, [](std::byte b) { return b == std::byte{0x5a}; }));
    EXPECT_EQ(orlop_valid_len(p.views), 2U);
    return status;
  });
}

Rows restore_rows() {
  return {
      restore_row("restore_page_twice", kInvalid, {"items[0]", "number 1 comes twice"},
                  [](Paged& p) {
                    p.numbers[0] = 1;
                    return p.bring_back();
                  }),
      restore_row("restore_page_negative", kInvalid, {"items[0]", "number -9"},
                  [](Paged& p) {
                    p.numbers[0] = -9;
                    return p.bring_back();
                  }),
      restore_row("restore_rank_that_is_not", kInvalid, {"items[0]", "rank: is 1", "has 1"},
                  [](Paged& p) {
                    p.get.rank = 1;
                    return p.bring_back();
                  }),
      restore_row("restore_options_too_small", kInvalid, {"options.struct_size", "is 8"},
                  [](Paged& p) {
                    auto options = sized<orlop_restore_options>();
                    options.struct_size = 8;
                    return p.bring_back(&options);
                  }),
      restore_row("restore_ranges_null", kInvalid, {"ranges", "NULL", "3"},
                  [](Paged& p) {
                    auto options = sized<orlop_restore_options>();
                    options.range_count = 3;
                    return p.bring_back(&options);
                  }),
      restore_row("restore_ranges_huge_count", kInvalid, {"ranges", std::to_string(kHuge)},
                  [](Paged& p) {
                    const orlop_layer_range all{0, 2};
                    auto options = sized<orlop_restore_options>();
                    options.ranges = &all;
                    options.range_count = kHuge;
                    return p.bring_back(&options);
                  }),
      restore_row("restore_range_of_nothing", kInvalid, {"ranges[1]", "[1, 1)"},
                  [](Paged& p) { return p.bring_back({{0, 1}, {1, 1}}); }),
      restore_row("restore_range_backwards", kInvalid, {"ranges[0]", "[2, 0)"},
                  [](Paged& p) { return p.bring_back({{2, 0}}); }),
      restore_row(
          "restore_range_beyond_the_layers", kInvalid, {"ranges[0]", "4294967295"},
          [](Paged& p) { return p.bring_back({{1, std::numeric_limits<std::uint32_t>::max()}}); }),
      restore_row("restore_ranges_that_overlap", kInvalid, {"ranges[1]", "overlaps"},
                  [](Paged& p) { return p.bring_back({{0, 2}, {1, 2}}); }),
      restore_row("restore_out_null", kInvalid, {"out", "NULL"},
                  [](Paged& p) {
                    p.restore = nullptr;
                    return orlop_restore_pages(p.cache, &p.get, 1, nullptr, nullptr);
                  }),
  };
}

}  // namespace

Rows c_page_rows() {
  Rows rows = c_page_job_rows();
  for (auto part : {layout_rows(), option_rows(), backup_rows(), restore_rows()})
    rows.insert(rows.end(), part.begin(), part.end());
  return rows;
}

}  // namespace orlop::negative_test
