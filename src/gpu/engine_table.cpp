// SPDX-License-Identifier: Apache-2.0
#include "gpu/engine_table.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

namespace orlop::gpu {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;

const char* name_of(CopyDirection direction) {
  return direction == CopyDirection::kBackup ? "backup" : "restore";
}

std::optional<EngineTable::Cell> cell_of(const json& from) {
  if (!from.is_object()) return std::nullopt;
  EngineTable::Cell cell;
  const std::string direction = from.value("direction", "");
  if (direction != "backup" && direction != "restore") return std::nullopt;
  cell.direction = direction == "backup" ? CopyDirection::kBackup : CopyDirection::kRestore;
  const std::optional<EngineKind> engine = engine_kind(from.value("engine", ""));
  if (!engine || *engine == EngineKind::kHost) return std::nullopt;
  cell.engine = *engine;
  cell.adjacent = from.value("adjacent", false);
  cell.piece_bytes = from.value("piece_bytes", std::uint64_t{0});
  cell.batch_bytes = from.value("batch_bytes", std::uint64_t{0});
  return cell;
}

}  // namespace

EngineKind EngineTable::choose(CopyDirection direction, bool adjacent, std::uint64_t piece_bytes,
                               std::uint64_t batch_bytes) const {
  const Cell* best = nullptr;
  for (const Cell& cell : cells) {
    if (cell.direction != direction || cell.adjacent != adjacent ||
        cell.piece_bytes > piece_bytes || cell.batch_bytes > batch_bytes) {
      continue;
    }
    if (best == nullptr || std::tie(cell.piece_bytes, cell.batch_bytes) >
                               std::tie(best->piece_bytes, best->batch_bytes)) {
      best = &cell;
    }
  }
  return best == nullptr ? EngineKind::kStaged : best->engine;
}

EngineTable default_engine_table() {
  // A direct kernel reaches 51 of 55 GB/s but needs no second step: it wins while a batch is short.
  constexpr std::uint64_t kDirectUpTo = std::uint64_t{8} << 20;
  EngineTable table;
  for (const CopyDirection direction : {CopyDirection::kBackup, CopyDirection::kRestore}) {
    for (const bool adjacent : {false, true}) {
      table.cells.push_back({direction, adjacent, 0, 0, EngineKind::kDirect});
      table.cells.push_back({direction, adjacent, 0, kDirectUpTo, EngineKind::kStaged});
    }
  }
  return table;
}

std::optional<std::filesystem::path> engine_table_path(const EngineTableKey& key) {
  std::filesystem::path folder;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/') {
    folder = cache;
  } else if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
    folder = std::filesystem::path(home) / ".cache";
  } else {
    return std::nullopt;
  }
  return folder / "orlop" / ("gpu-" + key.uuid + ".json");
}

Result<std::optional<EngineTable>> load_engine_table(const std::filesystem::path& path,
                                                     const EngineTableKey& key) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  const auto corrupt = [&](const std::string& what) {
    return fail(ErrorCode::kCorrupt,
                path.string() + ": " + what + "; remove it or run `orlop bench gpu --calibrate`");
  };
  const json text = json::parse(file, nullptr, false);
  if (!text.is_object() || !text.contains("cells") || !text["cells"].is_array()) {
    return corrupt("not a table of engines");
  }
  try {
    if (text.value("format", 0) != kFormat ||
        EngineTableKey{text.value("device", ""), text.value("uuid", ""),
                       text.value("driver", "")} != key) {
      return std::nullopt;
    }
    EngineTable table;
    for (const json& from : text["cells"]) {
      const std::optional<EngineTable::Cell> cell = cell_of(from);
      if (!cell) return corrupt("cell " + std::to_string(table.cells.size()) + " is not one");
      table.cells.push_back(*cell);
    }
    return table;
  } catch (const json::exception& wrong_type) {
    return corrupt(wrong_type.what());
  }
}

Result<void> save_engine_table(const std::filesystem::path& path, const EngineTableKey& key,
                               const EngineTable& table) {
  json text = {{"format", kFormat},
               {"device", key.device},
               {"uuid", key.uuid},
               {"driver", key.driver},
               {"cells", json::array()}};
  for (const EngineTable::Cell& cell : table.cells) {
    text["cells"].push_back({{"direction", name_of(cell.direction)},
                             {"adjacent", cell.adjacent},
                             {"piece_bytes", cell.piece_bytes},
                             {"batch_bytes", cell.batch_bytes},
                             {"engine", to_string(cell.engine)}});
  }
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  const std::filesystem::path beside = path.string() + ".new";
  std::ofstream file(beside);
  file << text.dump(1) << '\n';
  file.close();
  if (file) std::filesystem::rename(beside, path, error);
  if (!file || error) {
    return fail(ErrorCode::kSystem,
                "cannot write " + path.string() + (error ? ": " + error.message() : ""));
  }
  return {};
}

}  // namespace orlop::gpu
