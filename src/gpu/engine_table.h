// SPDX-License-Identifier: Apache-2.0
// Which engine serves a batch: a small table of measurements of this machine. Pure but for load and
// save.
//
// A cell is the fastest engine for batches of at least `batch_bytes` (up to the next cell of its
// kind) of pieces of at least `piece_bytes`. `gpu_bench --calibrate` measures and saves; without a
// file the table holds what was measured on an H200 (docs/benchmarks/gpu.md).
// Thread: plain values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpu/page_copier.h"
#include "orlop/error.h"

namespace orlop::gpu {

struct EngineTable {
  struct Cell {
    CopyDirection direction = CopyDirection::kBackup;
    bool adjacent = false;  // values follow each other in memory
    std::uint64_t piece_bytes = 0;
    std::uint64_t batch_bytes = 0;
    EngineKind engine = EngineKind::kStaged;
    bool operator==(const Cell&) const = default;
  };
  std::vector<Cell> cells;

  // Of the cells of this direction and adjacency whose piece and batch are not above the asked
  // ones: the largest piece, then the largest batch. kStaged when there is none.
  EngineKind choose(CopyDirection direction, bool adjacent, std::uint64_t piece_bytes,
                    std::uint64_t batch_bytes) const;
  bool operator==(const EngineTable&) const = default;
};

EngineTable default_engine_table();

// What a file of measurements belongs to: another device or driver makes it void.
struct EngineTableKey {
  std::string device;  // "NVIDIA H200"
  std::string uuid;    // of the device, lower-case hex
  std::string driver;  // "13.0"
  bool operator==(const EngineTableKey&) const = default;
};

// $XDG_CACHE_HOME/orlop or ~/.cache/orlop, gpu-<uuid>.json. None: neither variable is set.
std::optional<std::filesystem::path> engine_table_path(const EngineTableKey& key);
// None: no such file, or of another device or driver. kCorrupt: not a table; names file and place.
Result<std::optional<EngineTable>> load_engine_table(const std::filesystem::path& path,
                                                     const EngineTableKey& key);
// Writes beside and renames; makes the folder.
Result<void> save_engine_table(const std::filesystem::path& path, const EngineTableKey& key,
                               const EngineTable& table);

}  // namespace orlop::gpu
