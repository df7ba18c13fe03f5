// SPDX-License-Identifier: Apache-2.0
#include "gpu/page_copier.h"

namespace orlop::gpu {
namespace {

constexpr EngineKind kKinds[] = {EngineKind::kHost, EngineKind::kStaged, EngineKind::kDirect,
                                 EngineKind::kPieces};
static_assert(std::size(kKinds) == kEngineKindCount);

}  // namespace

std::string_view to_string(EngineKind kind) {
  switch (kind) {
    case EngineKind::kHost:
      return "host";
    case EngineKind::kStaged:
      return "staged";
    case EngineKind::kDirect:
      return "direct";
    case EngineKind::kPieces:
      return "pieces";
  }
  return "unknown";
}

std::optional<EngineKind> engine_kind(std::string_view name) {
  for (const EngineKind kind : kKinds) {
    if (name == to_string(kind)) return kind;
  }
  return std::nullopt;
}

}  // namespace orlop::gpu
