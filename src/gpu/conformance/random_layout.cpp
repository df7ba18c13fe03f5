// SPDX-License-Identifier: Apache-2.0
#include "gpu/conformance/random_layout.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/check.h"

namespace orlop::gpu::conformance {
namespace {

enum Axis : std::size_t { kLayer, kKv, kPage, kHead, kToken, kAxes };

struct Pool {
  std::array<std::uint64_t, kAxes> count{};
  std::array<std::uint64_t, kAxes> stride{};
  std::uint64_t row_bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint32_t pages_per_value = 1;
  std::vector<std::uint32_t> layers{};

  std::uint64_t value_bytes() const {
    return count[kLayer] * count[kKv] * count[kHead] * count[kToken] * row_bytes * pages_per_value;
  }
};

std::uint64_t random_row_bytes(Rng& rng, bool ragged) {
  constexpr std::uint64_t kUsual[] = {8,   16,  32,   64,    128,   144,   160,
                                      256, 656, 1152, 2'048, 4'096, 16'384};
  constexpr std::uint64_t kRagged[] = {1, 2, 3, 4, 6, 12, 20, 36, 100, 1'026};
  if (ragged && rng.chance(0.25)) return kRagged[rng.uniform(std::size(kRagged))];
  return kUsual[rng.uniform(std::size(kUsual))];
}

std::uint64_t random_gap(Rng& rng, const Pool& pool, bool ragged) {
  if (!rng.chance(0.25)) return 0;
  constexpr std::uint64_t kGaps[] = {8, 16, 64, 256};
  return ragged && pool.row_bytes % 8 != 0 ? rng.between(1, 40) : kGaps[rng.uniform(4)];
}

// Strides from the innermost axis outwards, in a random order of the axes.
void nest(Rng& rng, Pool& pool, bool ragged) {
  std::array<Axis, kAxes> inside_out{kToken, kHead, kPage, kKv, kLayer};
  std::ranges::shuffle(inside_out, rng);
  std::uint64_t extent = pool.row_bytes;
  for (const Axis axis : inside_out) {
    pool.stride[axis] = extent + random_gap(rng, pool, ragged);
    extent += (pool.count[axis] - 1) * pool.stride[axis];
  }
  pool.bytes = extent;
}

Pool random_pool(Rng& rng, std::vector<std::uint32_t> layers, const RandomLayoutLimits& limits) {
  Pool pool;
  pool.layers = std::move(layers);
  pool.row_bytes = random_row_bytes(rng, limits.ragged);
  pool.pages_per_value = static_cast<std::uint32_t>(rng.chance(0.5) ? 1 : rng.between(2, 9));
  pool.count[kLayer] = pool.layers.size();
  pool.count[kKv] = rng.between(1, 2);
  pool.count[kPage] = rng.between(4, limits.pages);
  pool.count[kHead] = rng.chance(0.3) ? 1 : rng.between(2, 8);
  pool.count[kToken] = rng.chance(0.3) ? 1 : rng.between(2, 16);
  pool.count[kPage] = std::max<std::uint64_t>(pool.count[kPage], pool.pages_per_value);
  // Too long: the longest axis shrinks, then the pages of a value.
  const std::uint64_t most = limits.value_bytes / 3;
  while (pool.value_bytes() > most) {
    std::uint64_t& longest = pool.count[pool.count[kHead] > pool.count[kToken] ? kHead : kToken];
    if (longest > 1) {
      longest /= 2;
    } else if (pool.pages_per_value > 1) {
      pool.pages_per_value /= 2;
    } else {
      CHECK(pool.row_bytes > 16);
      pool.row_bytes /= 2;
    }
  }
  nest(rng, pool, limits.ragged);
  return pool;
}

KvPart part_of(const Pool& pool, std::uint32_t pool_index, std::size_t layer_in_pool,
               std::uint64_t kv, std::uint64_t first_address) {
  KvPart part;
  part.layer = pool.layers[layer_in_pool];
  part.name = "layers." + std::to_string(part.layer) + (kv == 0 ? ".k" : ".v");
  part.pool = pool_index;
  part.base =
      first_address + pool.offset + layer_in_pool * pool.stride[kLayer] + kv * pool.stride[kKv];
  part.pages = pool.count[kPage];
  part.page_stride = pool.stride[kPage];
  part.heads = static_cast<std::uint32_t>(pool.count[kHead]);
  part.head_stride = pool.stride[kHead];
  part.tokens = static_cast<std::uint32_t>(pool.count[kToken]);
  part.token_stride = pool.stride[kToken];
  part.row_bytes = pool.row_bytes;
  return part;
}

RandomLayout draw(Rng& rng, std::uint64_t first_address, const RandomLayoutLimits& limits) {
  RandomLayout result;
  result.layout.order =
      rng.chance(0.75) ? ValueOrder::kHeadTokenChannel : ValueOrder::kTokenHeadChannel;
  // Layers in turn, some missing (another rank's), each of one pool or, as a hybrid's, of two.
  std::vector<std::vector<std::uint32_t>> layers_of(rng.between(1, 3));
  const std::uint64_t layers = rng.between(1, 6);
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    if (rng.chance(0.1)) continue;
    layers_of[rng.uniform(layers_of.size())].push_back(layer);
    if (rng.chance(0.1)) layers_of[rng.uniform(layers_of.size())].push_back(layer);
  }
  std::erase_if(layers_of, [](const auto& some) { return some.empty(); });
  if (layers_of.empty()) layers_of.push_back({0});
  std::vector<Pool> pools;
  for (std::vector<std::uint32_t>& some : layers_of) {
    some.erase(std::unique(some.begin(), some.end()), some.end());
    Pool pool = random_pool(rng, std::move(some), limits);
    const std::uint64_t unit = limits.ragged && pool.row_bytes % 8 != 0 ? 1 : 16;
    pool.offset = (result.bytes + unit * rng.uniform(9) + unit - 1) / unit * unit;
    result.bytes = pool.offset + pool.bytes;
    result.value_len += pool.value_bytes();
    pools.push_back(std::move(pool));
  }
  result.layout.pools.clear();
  for (std::uint32_t i = 0; i < pools.size(); ++i) {
    result.layout.pools.push_back({"pool" + std::to_string(i), pools[i].pages_per_value});
    for (std::size_t layer = 0; layer < pools[i].layers.size(); ++layer) {
      for (std::uint64_t kv = 0; kv < pools[i].count[kKv]; ++kv) {
        KvPart part = part_of(pools[i], i, layer, kv, first_address);
        std::vector<KvPart>& parts = result.layout.parts;
        parts.insert(std::ranges::upper_bound(parts, part.layer, {}, &KvPart::layer), part);
      }
    }
  }
  return result;
}

}  // namespace

RandomLayout random_layout(Rng& rng, std::uint64_t first_address,
                           const RandomLayoutLimits& limits) {
  RandomLayout drawn = draw(rng, first_address, limits);
  while (drawn.bytes > limits.cache_bytes) drawn = draw(rng, first_address, limits);
  return drawn;
}

}  // namespace orlop::gpu::conformance
