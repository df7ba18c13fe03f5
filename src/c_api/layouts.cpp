// SPDX-License-Identifier: Apache-2.0
#include "c_api/layouts.h"

#include <algorithm>
#include <string>

#include "c_api/arguments.h"
#include "c_api/handles.h"
#include "c_api/structs.h"
#include "gpu/compiled_layout.h"

namespace orlop::c_api {

namespace {

static_assert(static_cast<int>(CopyEngineChoice::kAuto) == ORLOP_ENGINE_AUTO);
static_assert(static_cast<int>(CopyEngineChoice::kHost) == ORLOP_ENGINE_HOST);
static_assert(static_cast<int>(CopyEngineChoice::kStaged) == ORLOP_ENGINE_STAGED);
static_assert(static_cast<int>(CopyEngineChoice::kDirect) == ORLOP_ENGINE_DIRECT);
static_assert(static_cast<int>(CopyEngineChoice::kPieces) == ORLOP_ENGINE_PIECES);

constexpr std::size_t kMostItems = 65'536;  // plans of one call; far beyond what a batch has

std::string at(const char* array, std::size_t i) {
  return std::string(array) + "[" + std::to_string(i) + "]";
}

// An array of so many entries at most, or nothing.
Result<void> check_entries(const std::string& argument, const void* entries, std::size_t count,
                           std::size_t most) {
  if (count > most) {
    return fail(ErrorCode::kInvalidArgument, argument + ": has " + std::to_string(count) +
                                                 " entries, at most " + std::to_string(most) +
                                                 " are allowed");
  }
  if (entries == nullptr && count > 0) {
    return fail(ErrorCode::kInvalidArgument,
                argument + ": is NULL and has " + std::to_string(count) + " entries");
  }
  return {};
}

Result<std::vector<std::span<const std::int64_t>>> read_lists(const std::string& argument,
                                                              const orlop_page_list* lists,
                                                              std::size_t count) {
  if (auto checked = check_entries(argument, lists, count, gpu::CompiledLayout::kMostPools);
      !checked)
    return std::unexpected(checked.error());
  std::vector<std::span<const std::int64_t>> spans;
  for (std::size_t i = 0; i < count; ++i) {
    const orlop_page_list& list = lists[i];
    if (list.pages == nullptr && list.count > 0) {
      return fail(ErrorCode::kInvalidArgument, argument + "[" + std::to_string(i) +
                                                   "].pages: is NULL and has " +
                                                   std::to_string(list.count) + " entries");
    }
    spans.emplace_back(list.pages, list.count);
  }
  return spans;
}

Result<KvPart> read_part(const orlop_kv_part& given, std::size_t i) {
  const auto name = read_text(at("parts", i) + ".name", given.name);
  if (!name) return std::unexpected(name.error());
  return KvPart{.name = std::string(*name),
                .layer = given.layer,
                .pool = given.pool,
                .base = given.base,
                .pages = given.pages,
                .page_stride = given.page_stride,
                .heads = std::max(given.heads, 1U),
                .head_stride = given.head_stride,
                .tokens = std::max(given.tokens, 1U),
                .token_stride = given.token_stride,
                .row_bytes = given.row_bytes};
}

// What backups and restores have in common: a plan and its lists.
template <class Item, class Given>
Result<std::vector<Item>> items_of(const Given* given, std::size_t count) {
  if (auto checked = check_entries("items", given, count, kMostItems); !checked)
    return std::unexpected(checked.error());
  std::vector<Item> items;
  for (std::size_t i = 0; i < count; ++i) {
    if (auto checked = check_handle(at("items", i) + ".plan", given[i].plan); !checked)
      return std::unexpected(checked.error());
    auto lists = read_lists(at("items", i) + ".lists", given[i].lists, given[i].list_count);
    if (!lists) return std::unexpected(lists.error());
    items.push_back({.plan = &*given[i].plan->object, .pages = std::move(*lists)});
  }
  return items;
}

}  // namespace

Result<KvLayout> read_layout(const orlop_kv_layout* given) {
  if (given == nullptr)
    return fail(ErrorCode::kInvalidArgument, "layout: is NULL; describe the engine's cache");
  const auto read = read_struct("layout", given);
  if (!read) return std::unexpected(read.error());
  if (auto checked =
          check_entries("pools", read->pools, read->pool_count, gpu::CompiledLayout::kMostPools);
      !checked)
    return std::unexpected(checked.error());
  if (auto checked =
          check_entries("parts", read->parts, read->part_count, gpu::CompiledLayout::kMostParts);
      !checked)
    return std::unexpected(checked.error());
  if (read->order > ORLOP_ORDER_TOKEN_HEAD_CHANNEL) {
    return fail(ErrorCode::kInvalidArgument,
                "order: is " + std::to_string(read->order) + ", which is no ORLOP_ORDER_...");
  }
  KvLayout layout;
  layout.order = static_cast<ValueOrder>(read->order);
  if (read->pool_count > 0) layout.pools.clear();
  for (std::size_t i = 0; i < read->pool_count; ++i) {
    const auto name = read_text(at("pools", i) + ".name", read->pools[i].name);
    if (!name) return std::unexpected(name.error());
    layout.pools.push_back({.name = std::string(*name),
                            .pages_per_value = std::max(read->pools[i].pages_per_value, 1U)});
  }
  for (std::size_t i = 0; i < read->part_count; ++i) {
    auto part = read_part(read->parts[i], i);
    if (!part) return std::unexpected(part.error());
    layout.parts.push_back(std::move(*part));
  }
  return layout;
}

Result<PageCacheOptions> read_options(const orlop_page_cache_options* given) {
  PageCacheOptions options;
  if (given == nullptr) return options;
  const auto read = read_struct("options", given);
  if (!read) return std::unexpected(read.error());
  if (read->engine > ORLOP_ENGINE_PIECES) {
    return fail(ErrorCode::kInvalidArgument,
                "engine: is " + std::to_string(read->engine) + ", which is no orlop_engine");
  }
  if (const std::uint32_t unknown = read->flags & ~ORLOP_PAGE_CACHE_DEVICE; unknown != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "flags: has bits that this library does not know: " + std::to_string(unknown));
  }
  options.engine = static_cast<CopyEngineChoice>(read->engine);
  if ((read->flags & ORLOP_PAGE_CACHE_DEVICE) != 0) {
    if (read->device < 0)
      return fail(ErrorCode::kInvalidArgument, "device: is negative; leave the flag out for any");
    options.device = read->device;
  }
  if (read->staging_bytes != 0) options.staging_bytes = read->staging_bytes;
  options.backup_burst_bytes = read->backup_burst_bytes;
  if (read->progress != nullptr) {
    options.progress = [call = read->progress, context = read->progress_context](
                           std::uint64_t done, std::uint64_t all) { call(context, done, all); };
  }
  return options;
}

Result<RestoreOptions> read_options(const orlop_restore_options* given) {
  RestoreOptions options;
  if (given == nullptr) return options;
  const auto read = read_struct("options", given);
  if (!read) return std::unexpected(read.error());
  if (auto checked =
          check_entries("ranges", read->ranges, read->range_count, gpu::CompiledLayout::kMostParts);
      !checked)
    return std::unexpected(checked.error());
  options.stream = read->stream;
  for (std::size_t i = 0; i < read->range_count; ++i)
    options.ranges.push_back({read->ranges[i].first, read->ranges[i].end});
  return options;
}

Result<std::vector<BackupItem>> read_items(const orlop_backup_item* given, std::size_t count) {
  return items_of<BackupItem>(given, count);
}

Result<std::vector<RestoreItem>> read_items(const orlop_restore_item* given, std::size_t count) {
  auto items = items_of<RestoreItem>(given, count);
  for (std::size_t i = 0; items && i < count; ++i) (*items)[i].rank = given[i].rank;
  return items;
}

}  // namespace orlop::c_api
