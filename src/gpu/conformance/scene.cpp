// SPDX-License-Identifier: Apache-2.0

#include "gpu/conformance/scene.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/bytes.h"
#include "base/check.h"
#include "copy/copy.h"

namespace orlop::gpu::conformance {
namespace {

// Slots of value memory begin at cache lines.
constexpr std::size_t kSlotAlignment = 64;

testing::AssertionResult same(const char* memory, std::span<const std::byte> is,
                              std::span<const std::byte> expected) {
  const auto [at, wanted] = std::ranges::mismatch(is, expected);
  if (at == is.end()) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << memory << " differs at byte " << at - is.begin() << " of " << is.size() << ": is "
         << std::to_integer<int>(*at) << ", expected " << std::to_integer<int>(*wanted);
}

std::uint64_t sum_of(const KvLayout& layout) {
  const Result<std::uint64_t> bytes = value_bytes(layout);
  CHECK(bytes.has_value());
  return *bytes;
}

}  // namespace

Bytes random_bytes(Rng& rng, std::size_t bytes) {
  Bytes result(align_up(bytes, 8));
  for (std::size_t i = 0; i < result.size(); i += 8) {
    const std::uint64_t word = rng.next();
    std::memcpy(result.data() + i, &word, 8);
  }
  result.resize(bytes);
  return result;
}

Stage Stage::half(bool second) const {
  const std::size_t cache_half = cache_bytes / 2 / 256 * 256;
  const std::size_t values_half = values_bytes / 2 / 4096 * 4096;
  return {cache,  cache_offset + (second ? cache_half : 0),   cache_half,
          values, values_offset + (second ? values_half : 0), values_half};
}

Scene::Scene(const Stage& stage, Rng& rng, KvLayout layout, std::size_t value_count,
             Placement placement)
    : stage_(stage), layout_(std::move(layout)) {
  Result<CompiledLayout> compiled = CompiledLayout::compile(layout_, sum_of(layout_));
  CHECK(compiled.has_value(), compiled ? "" : compiled.error().message.c_str());
  compiled_ = std::make_unique<CompiledLayout>(*std::move(compiled));
  for (std::uint32_t pool = 0; pool < layout_.pools.size(); ++pool) {
    value_count = std::min<std::size_t>(
        value_count, compiled_->pool_pages(pool) / layout_.pools[pool].pages_per_value);
  }
  const std::size_t slots = stage_.values_bytes / align_up(compiled_->value_len(), kSlotAlignment);
  place_values(rng, std::min(value_count, slots), placement);
  choose_pages(rng);
}

Scene Scene::random(const Stage& stage, Rng& rng, const RandomLayoutLimits& limits) {
  RandomLayout drawn = random_layout(
      rng, stage.cache.address() + stage.cache_offset + (limits.ragged ? rng.uniform(64) : 0),
      limits);
  return {stage, rng, std::move(drawn.layout), rng.between(1, 12),
          rng.chance(0.5) ? Placement::kAdjacent : Placement::kScattered};
}

void Scene::place_values(Rng& rng, std::size_t value_count, Placement placement) {
  const std::size_t slot = align_up(compiled_->value_len(), kSlotAlignment);
  const std::size_t slots = stage_.values_bytes / slot;
  CHECK(value_count > 0 && slots >= value_count, "the stage is too small for a value");
  std::vector<std::size_t> order(slots);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (placement == Placement::kScattered) std::ranges::shuffle(order, rng);
  for (std::size_t i = 0; i < value_count; ++i) value_offsets_.push_back(order[i] * slot);
  for (const std::size_t offset : value_offsets_) {
    value_addresses_.push_back(stage_.values.bytes().data() + stage_.values_offset + offset);
  }
}

void Scene::choose_pages(Rng& rng) {
  pages_.resize(value_count());
  for (std::uint32_t pool = 0; pool < layout_.pools.size(); ++pool) {
    const std::size_t each = layout_.pools[pool].pages_per_value;
    std::vector<std::int64_t> numbers(compiled_->pool_pages(pool));
    std::iota(numbers.begin(), numbers.end(), 0);
    if (rng.chance(0.8)) std::ranges::shuffle(numbers, rng);
    numbers.resize(each * value_count());
    for (std::size_t i = 0; i < value_count(); ++i) {
      const auto first = numbers.begin() + static_cast<std::ptrdiff_t>(i * each);
      pages_[i].emplace_back(first, first + static_cast<std::ptrdiff_t>(each));
    }
    page_lists_.push_back(std::move(numbers));
  }
  page_spans_.assign(page_lists_.begin(), page_lists_.end());
}

void Scene::fill(Rng& rng) {
  cache_image_ = random_bytes(rng, stage_.cache_bytes);
  value_image_ = random_bytes(rng, stage_.values_bytes);
  stage_.cache.upload(stage_.cache_offset, cache_image_);
  upload_values();
}

void Scene::upload_values() {
  std::memcpy(stage_.values.bytes().data() + stage_.values_offset, value_image_.data(),
              value_image_.size());
}

CopyRequest Scene::request(CopyDirection direction, std::span<const LayerRange> ranges) const {
  return {.direction = direction,
          .layout = compiled_.get(),
          .values = value_addresses_,
          .pages = page_spans_,
          .ranges = ranges};
}

std::vector<ModelStrip> Scene::strips(std::span<const LayerRange> ranges) const {
  if (ranges.empty()) return {{0, compiled_->value_len()}};
  std::vector<ModelStrip> strips;
  for (const LayerRange& range : ranges) strips.push_back(strip_of_layers(layout_, range));
  return strips;
}

void Scene::expect(CopyDirection direction, std::span<const LayerRange> ranges) {
  for (std::size_t i = 0; i < value_count(); ++i) {
    const std::vector<std::uint64_t> addresses = addresses_of_value(layout_, pages_[i]);
    CHECK(addresses.size() == compiled_->value_len());
    for (const ModelStrip& strip : strips(ranges)) {
      for (std::uint64_t byte = strip.begin; byte < strip.end; ++byte) {
        std::byte& in_cache = cache_image_[addresses[byte] - cache_begin()];
        std::byte& in_value = value_image_[value_offsets_[i] + byte];
        if (direction == CopyDirection::kBackup) {
          in_value = in_cache;
        } else {
          in_cache = in_value;
        }
      }
    }
  }
}

std::vector<std::uint64_t> Scene::expected_sums(std::span<const LayerRange> ranges) const {
  const CopyEngine scalar(CopyKind::kScalar);
  std::vector<std::uint64_t> sums(value_count());
  for (std::size_t i = 0; i < value_count(); ++i) {
    for (const ModelStrip& strip : strips(ranges)) {
      const std::span<const std::byte> image(value_image_);
      sums[i] += scalar.raw_sum(
          image.subspan(value_offsets_[i] + strip.begin, strip.end - strip.begin), strip.begin / 4);
    }
  }
  return sums;
}

testing::AssertionResult Scene::matches() {
  Bytes cache(stage_.cache_bytes);
  stage_.cache.download(stage_.cache_offset, cache);
  const std::span<const std::byte> values =
      stage_.values.bytes().subspan(stage_.values_offset, stage_.values_bytes);
  if (testing::AssertionResult right = same("cache", cache, cache_image_); !right) return right;
  return same("value memory", values, value_image_);
}

std::span<std::byte> Scene::value(std::size_t i) const {
  return {value_addresses_[i], compiled_->value_len()};
}

}  // namespace orlop::gpu::conformance
