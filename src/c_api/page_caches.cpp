// SPDX-License-Identifier: Apache-2.0
// Page caches, backups, restores.
#include <cstring>
#include <memory>

#include "c_api/arguments.h"
#include "c_api/guard.h"
#include "c_api/handles.h"
#include "c_api/layouts.h"
#include "c_api/structs.h"
#include "gpu/compiled_layout.h"
#include "gpu/page_copier.h"
#include "orlop/gpu.h"
#include "orlop/orlop.h"

using namespace orlop::c_api;
using orlop::ErrorCode;
using orlop::Milliseconds;
using orlop::Result;

namespace {

std::unexpected<orlop::Error> not_yet(const char* job, int64_t timeout_ms) {
  return orlop::fail(ErrorCode::kDeadline, std::string(job) + ": not over within " +
                                               std::to_string(timeout_ms) +
                                               " ms; it goes on, wait again");
}

Result<void> check_places(const char* argument, const void* places, std::size_t count,
                          std::size_t wanted) {
  if (auto checked = check_out(argument, places); !checked) return checked;
  if (count == wanted) return {};
  return orlop::fail(ErrorCode::kInvalidArgument,
                     std::string(argument) + ": has " + std::to_string(count) +
                         " entries, the job has " + std::to_string(wanted));
}

std::size_t keys_of(const std::vector<orlop::BackupItem>& items) {
  std::size_t keys = 0;
  for (const orlop::BackupItem& item : items) keys += item.plan->size();
  return keys;
}

}  // namespace

const char* orlop_engine_name(int engine) {
  switch (engine) {
    case ORLOP_ENGINE_AUTO:
      return "auto";
    case ORLOP_ENGINE_HOST:
      return "host";
    case ORLOP_ENGINE_STAGED:
      return "staged";
    case ORLOP_ENGINE_DIRECT:
      return "direct";
    case ORLOP_ENGINE_PIECES:
      return "pieces";
    default:
      return "unknown";
  }
}

orlop_status orlop_layout_value_len(const orlop_kv_layout* layout, uint64_t* bytes) {
  return guarded([&]() -> Result<void> {
    const auto read = read_layout(layout);
    if (!read) return std::unexpected(read.error());
    if (auto checked = check_out("bytes", bytes); !checked) return checked;
    return give_number(orlop::gpu::value_bytes(*read), bytes);
  });
}

// ---- Page caches -------------------------------------------------------------------------------

orlop_status orlop_page_cache_open(orlop_client* client, const orlop_kv_layout* layout,
                                   uint32_t value_len, const orlop_page_cache_options* options,
                                   orlop_page_cache** out) {
  if (out != nullptr) *out = nullptr;
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("client", client); !checked) return checked;
    if (auto checked = check_out("out", out); !checked) return checked;
    const auto read = read_layout(layout);
    if (!read) return std::unexpected(read.error());
    const auto how = read_options(options);
    if (!how) return std::unexpected(how.error());
    auto made = std::make_unique<orlop_page_cache>();
    auto cache = orlop::PageCache::open(*client->object, *read, value_len, *how);
    if (!cache) return std::unexpected(cache.error());
    made->object.emplace(std::move(*cache));
    *out = made.release();
    return {};
  });
}

void orlop_page_cache_free(orlop_page_cache* cache) {
  free_handle(cache);
}

orlop_status orlop_page_cache_describe(const orlop_page_cache* cache, char* buffer, size_t capacity,
                                       size_t* size) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("cache", cache); !checked) return checked;
    if (auto checked = check_out("size", size); !checked) return checked;
    const std::string text = cache->object->describe();
    *size = text.size();
    if (buffer == nullptr && capacity == 0) return {};
    if (auto checked = check_room(text.size(), buffer, capacity); !checked) return checked;
    std::memcpy(buffer, text.data(), text.size());
    return {};
  });
}

orlop_engine orlop_page_cache_engine(const orlop_page_cache* cache, size_t values, int restore) {
  return guarded_value(ORLOP_ENGINE_AUTO, [&] {
    if (!usable(cache)) return ORLOP_ENGINE_AUTO;
    const auto kind = orlop::gpu::engine_kind(cache->object->engine_for(values, restore != 0));
    // Kinds count from the host's 0 on, engines in C from 1.
    return kind ? static_cast<orlop_engine>(static_cast<int>(*kind) + ORLOP_ENGINE_HOST)
                : ORLOP_ENGINE_AUTO;
  });
}

orlop_status orlop_page_cache_read_stats(const orlop_page_cache* cache,
                                         orlop_page_cache_stats* stats) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("cache", cache); !checked) return checked;
    if (auto checked = check_out("stats", stats); !checked) return checked;
    if (auto checked = check_struct_size("stats", stats->struct_size, sizeof *stats); !checked)
      return checked;
    const orlop::PageCacheStats from = cache->object->stats();
    write_struct(stats, {.struct_size = 0,
                         .backups = from.backups,
                         .restores = from.restores,
                         .pages_backed_up = from.pages_backed_up,
                         .bytes_backed_up = from.bytes_backed_up,
                         .pages_restored = from.pages_restored,
                         .bytes_restored = from.bytes_restored,
                         .mismatches = from.mismatches,
                         .cancelled = from.cancelled,
                         .failed = from.failed,
                         .running = from.running,
                         .registered_bytes = from.registered_bytes});
    return {};
  });
}

// ---- Backups -----------------------------------------------------------------------------------

orlop_status orlop_backup_pages(orlop_page_cache* cache, const orlop_backup_item* items,
                                size_t item_count, void* stream, orlop_backup** out) {
  if (out != nullptr) *out = nullptr;
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("cache", cache); !checked) return checked;
    const auto read = read_items(items, item_count);
    if (!read) return std::unexpected(read.error());
    auto made = std::make_unique<orlop_backup>();  // before the plans end
    made->size = keys_of(*read);
    auto backup = cache->object->backup(*read, {.stream = stream});
    if (!backup) return std::unexpected(backup.error());
    made->object.emplace(std::move(*backup));
    if (out != nullptr) *out = made.release();
    return {};
  });
}

int orlop_backup_done(const orlop_backup* backup) {
  return guarded_value(0, [&] { return usable(backup) && backup->object->done() ? 1 : 0; });
}

size_t orlop_backup_size(const orlop_backup* backup) {
  return usable(backup) ? backup->size : 0;
}

orlop_status orlop_backup_wait(orlop_backup* backup, int64_t timeout_ms, orlop_outcome* outcomes,
                               size_t count) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("backup", backup); !checked) return checked;
    if (auto checked = check_places("outcomes", outcomes, count, backup->size); !checked)
      return checked;
    const auto answered = backup->object->wait(Milliseconds{timeout_ms});
    if (!answered) return std::unexpected(answered.error());
    if (!*answered) return not_yet("backup", timeout_ms);
    for (const std::vector<orlop::Outcome>& item : **answered)
      for (const orlop::Outcome outcome : item) *outcomes++ = static_cast<orlop_outcome>(outcome);
    return {};
  });
}

orlop_status orlop_backup_stream_wait(orlop_backup* backup, void* stream) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("backup", backup); !checked) return checked;
    return backup->object->stream_wait(stream);
  });
}

orlop_status orlop_backup_cancel(orlop_backup* backup) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("backup", backup); !checked) return checked;
    backup->object->cancel();
    return {};
  });
}

void orlop_backup_free(orlop_backup* backup) {
  free_handle(backup);
}

// ---- Restores ----------------------------------------------------------------------------------

orlop_status orlop_restore_pages(orlop_page_cache* cache, const orlop_restore_item* items,
                                 size_t item_count, const orlop_restore_options* options,
                                 orlop_restore** out) {
  if (out != nullptr) *out = nullptr;
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("cache", cache); !checked) return checked;
    if (auto checked = check_out("out", out); !checked) return checked;
    const auto read = read_items(items, item_count);
    if (!read) return std::unexpected(read.error());
    const auto how = read_options(options);
    if (!how) return std::unexpected(how.error());
    auto made = std::make_unique<orlop_restore>();
    made->size = item_count;
    auto restore = cache->object->restore(*read, *how);
    if (!restore) return std::unexpected(restore.error());
    made->object.emplace(std::move(*restore));
    *out = made.release();
    return {};
  });
}

int orlop_restore_done(const orlop_restore* restore) {
  return guarded_value(0, [&] { return usable(restore) && restore->object->done() ? 1 : 0; });
}

size_t orlop_restore_ranges(const orlop_restore* restore) {
  return guarded_value(size_t{0}, [&] { return usable(restore) ? restore->object->ranges() : 0; });
}

int orlop_restore_range_done(const orlop_restore* restore, size_t range) {
  return guarded_value(
      0, [&] { return usable(restore) && restore->object->range_done(range) ? 1 : 0; });
}

orlop_status orlop_restore_stream_wait(orlop_restore* restore, size_t range, void* stream) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("restore", restore); !checked) return checked;
    return restore->object->stream_wait(range, stream);
  });
}

orlop_status orlop_restore_wait(orlop_restore* restore, int64_t timeout_ms, uint32_t* valid,
                                size_t count) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("restore", restore); !checked) return checked;
    if (auto checked = check_places("valid", valid, count, restore->size); !checked) return checked;
    const auto answered = restore->object->wait(Milliseconds{timeout_ms});
    if (!answered) return std::unexpected(answered.error());
    if (!*answered) return not_yet("restore", timeout_ms);
    for (const std::uint32_t pages : **answered) *valid++ = pages;
    return {};
  });
}

orlop_status orlop_restore_cancel(orlop_restore* restore) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("restore", restore); !checked) return checked;
    restore->object->cancel();
    return {};
  });
}

void orlop_restore_free(orlop_restore* restore) {
  free_handle(restore);
}
