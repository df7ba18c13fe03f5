// SPDX-License-Identifier: Apache-2.0
#include "paged_model.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace orlop::gpu_test {
namespace {

// Between two tensors, so that an engine that runs over an end is seen.
constexpr std::uint64_t kGapBytes = 512;

constexpr std::array<std::pair<Arrangement, std::string_view>, kArrangements.size()> kNames = {
    {{Arrangement::kNhd, "nhd"},
     {Arrangement::kHnd, "hnd"},
     {Arrangement::kPacked, "packed"},
     {Arrangement::kSlots, "slots"},
     {Arrangement::kMla, "mla"}}};

}  // namespace

NamespaceDescriptor Model::descriptor() const {
  NamespaceDescriptor d;
  d.engine = "gpu-test";
  d.layout = "canonical-1";  // not the arrangement: values do not depend on it
  d.model = name;
  d.revision = "1";
  d.dtype = "bf16";
  d.page_tokens = page_tokens;
  d.value_len = static_cast<std::uint32_t>(value_len());
  return d;
}

Model make_model(ModelKind kind, ModelSize size) {
  const bool large = size == ModelSize::kLarge;
  if (kind == ModelKind::kLatent) {
    // 512 latent and 64 rotary channels of 2 bytes, as DeepSeek's.
    return {.kind = kind,
            .name = large ? "latent" : "small-latent",
            .layers = large ? 61u : 4u,
            .row_bytes = large ? 1152u : 576u};
  }
  return {.kind = kind,
          .name = large ? "heads" : "small-heads",
          .layers = large ? 36u : 4u,
          .heads = large ? 8u : 4u,
          .row_bytes = large ? 256u : 128u};
}

std::string_view to_string(Arrangement wanted) {
  for (const auto& [which, name] : kNames)
    if (which == wanted) return name;
  return "";
}

std::optional<Arrangement> arrangement(std::string_view name) {
  for (const auto& [which, known] : kNames)
    if (known == name) return which;
  return std::nullopt;
}

ModelKind model_kind(Arrangement arrangement) {
  return arrangement == Arrangement::kMla ? ModelKind::kLatent : ModelKind::kHeads;
}

PagedCache::PagedCache(const Model& model, Arrangement arrangement, std::size_t values)
    : model_(model), arrangement_(arrangement), tokens_(model.page_tokens) {
  CHECK(model.kind == model_kind(arrangement));
  if (arrangement == Arrangement::kSlots) {
    pages_per_value_ = model.page_tokens;
    tokens_ = 1;
  }
  pages_ = values * pages_per_value_;
  const std::uint64_t page_bytes = model.row_bytes * model.heads * tokens_;
  tensor_bytes_ = page_bytes * pages_ * (arrangement == Arrangement::kPacked ? 2 : 1) + kGapBytes;
  const std::uint64_t tensors = std::uint64_t{model.layers} *
                                (arrangement == Arrangement::kPacked ? 1 : model.parts_per_layer());
  bytes_ = tensor_bytes_ * tensors;
}

PagedCache::Part PagedCache::part(std::uint32_t layer, std::uint32_t which) const {
  const std::uint64_t row = model_.row_bytes, heads = model_.heads;
  const std::uint64_t parts = model_.parts_per_layer();
  Part part{.offset = (layer * parts + which) * tensor_bytes_,
            .page_stride = row * heads * tokens_,
            .head_stride = row,
            .token_stride = row * heads};
  if (arrangement_ == Arrangement::kHnd) {
    part.head_stride = row * tokens_;
    part.token_stride = row;
  }
  if (arrangement_ == Arrangement::kPacked) {
    part = {.offset = layer * tensor_bytes_ + which * row,
            .page_stride = 2 * row * heads * tokens_,
            .head_stride = 2 * row,
            .token_stride = 2 * row * heads};
  }
  return part;
}

KvLayout PagedCache::layout(std::uint64_t address) const {
  KvLayout layout{.pools = {{"pages", pages_per_value_}}};
  for (std::uint32_t layer = 0; layer < model_.layers; ++layer) {
    for (std::uint32_t which = 0; which < model_.parts_per_layer(); ++which) {
      const Part strides = part(layer, which);
      layout.parts.push_back(
          {.name = "layers." + std::to_string(layer) + (which == 0 ? ".k" : ".v"),
           .layer = layer,
           .base = address + strides.offset,
           .pages = pages_,
           .page_stride = strides.page_stride,
           .heads = model_.heads,
           .head_stride = strides.head_stride,
           .tokens = tokens_,
           .token_stride = strides.token_stride,
           .row_bytes = model_.row_bytes});
    }
  }
  return layout;
}

void PagedCache::write_value(std::span<std::byte> image, std::span<const std::byte> value,
                             std::span<const std::int64_t> pages) const {
  CHECK(image.size() == bytes_ && value.size() == model_.value_len());
  CHECK(pages.size() == pages_per_value_);
  const std::byte* from = value.data();
  for (std::uint32_t layer = 0; layer < model_.layers; ++layer) {
    for (std::uint32_t which = 0; which < model_.parts_per_layer(); ++which) {
      const Part strides = part(layer, which);
      for (std::uint32_t head = 0; head < model_.heads; ++head) {
        for (std::uint32_t token = 0; token < model_.page_tokens; ++token) {
          const auto page = static_cast<std::uint64_t>(pages[token / tokens_]);
          const std::uint64_t at = strides.offset + page * strides.page_stride +
                                   head * strides.head_stride +
                                   token % tokens_ * strides.token_stride;
          CHECK(at + model_.row_bytes <= image.size());
          std::memcpy(image.data() + at, from, model_.row_bytes);
          from += model_.row_bytes;
        }
      }
    }
  }
}

std::vector<std::byte> value_of(std::string_view key, std::uint64_t bytes) {
  std::uint64_t state = 0xcbf29ce484222325;  // FNV-1a: the same in every process
  for (const char c : key) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  std::vector<std::byte> out(bytes);
  for (std::size_t at = 0; at < out.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = splitmix64(state);
    std::memcpy(out.data() + at, &word, std::min(sizeof word, out.size() - at));
  }
  return out;
}

std::vector<std::int64_t> scattered_pages(std::size_t pages, std::size_t values,
                                          std::uint32_t pages_per_value, std::uint64_t seed) {
  CHECK(values * pages_per_value <= pages);
  std::vector<std::int64_t> all(pages);
  std::iota(all.begin(), all.end(), 0);
  Rng rng(seed);
  for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[rng.uniform(i)]);
  all.resize(values * pages_per_value);
  return all;
}

}  // namespace orlop::gpu_test
