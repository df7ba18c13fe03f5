// SPDX-License-Identifier: Apache-2.0
// Layouts, options and items of page caches as the C++ API takes them. Nothing is kept beyond the
// call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "orlop/gpu.h"
#include "orlop/orlop.h"

namespace orlop::c_api {

Result<KvLayout> read_layout(const orlop_kv_layout* layout);
// options may be null: all defaults.
Result<PageCacheOptions> read_options(const orlop_page_cache_options* options);
Result<RestoreOptions> read_options(const orlop_restore_options* options);
Result<std::vector<BackupItem>> read_items(const orlop_backup_item* items, std::size_t count);
Result<std::vector<RestoreItem>> read_items(const orlop_restore_item* items, std::size_t count);

}  // namespace orlop::c_api
