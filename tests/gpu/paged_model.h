// SPDX-License-Identifier: Apache-2.0
// A model's attention state in the ways engines keep it, written and compared by plain loops of
// their own: what the copy path is held against.
// Thread: plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orlop/kv_layout.h"
#include "orlop/namespace.h"

namespace orlop::gpu_test {

// kHeads: keys and values of several heads. kLatent: one row a token (MLA).
enum class ModelKind { kHeads, kLatent };

struct Model {
  ModelKind kind = ModelKind::kHeads;
  std::string name;
  std::uint32_t layers = 0, heads = 1, page_tokens = 16;
  std::uint64_t row_bytes = 0;  // of one head of one token

  std::uint32_t parts_per_layer() const { return kind == ModelKind::kHeads ? 2 : 1; }
  std::uint64_t value_len() const {
    return row_bytes * heads * page_tokens * parts_per_layer() * layers;
  }
  NamespaceDescriptor descriptor() const;
};

enum class ModelSize { kSmall, kLarge };  // values of 64 KiB, of some MiB
Model make_model(ModelKind kind, ModelSize size);

// How a cache strides the state. All but kMla keep models of kHeads.
enum class Arrangement {
  kNhd,     // [page, token, head, channel], keys and values apart
  kHnd,     // [page, head, token, channel]
  kPacked,  // [page, token, head, 2 x channel]: key and value in one row
  kSlots,   // [token, head, channel]: a page is one token, a value takes page_tokens of them
  kMla,     // [page, token, channel]
};
inline constexpr std::array kArrangements = {Arrangement::kNhd, Arrangement::kHnd,
                                             Arrangement::kPacked, Arrangement::kSlots,
                                             Arrangement::kMla};
std::string_view to_string(Arrangement arrangement);
std::optional<Arrangement> arrangement(std::string_view name);
ModelKind model_kind(Arrangement arrangement);

class PagedCache {
 public:
  // values: how many values it has room for.
  PagedCache(const Model& model, Arrangement arrangement, std::size_t values);

  std::uint64_t bytes() const { return bytes_; }
  KvLayout layout(std::uint64_t address) const;
  std::uint32_t pages_per_value() const { return pages_per_value_; }
  std::size_t pages() const { return pages_; }
  // Writes the value (canonical order) to its pages in an image of the cache.
  void write_value(std::span<std::byte> image, std::span<const std::byte> value,
                   std::span<const std::int64_t> pages) const;

 private:
  struct Part {
    std::uint64_t offset = 0, page_stride = 0, head_stride = 0, token_stride = 0;
  };
  Part part(std::uint32_t layer, std::uint32_t which) const;

  Model model_;
  Arrangement arrangement_;
  std::uint32_t pages_per_value_ = 1;
  std::uint32_t tokens_ = 16;  // of a page
  std::size_t pages_ = 0;
  std::uint64_t tensor_bytes_ = 0, bytes_ = 0;
};

// Bytes of a value, from its key alone.
std::vector<std::byte> value_of(std::string_view key, std::uint64_t bytes);
// `values` times pages_per_value different page numbers below `pages`, in an order that the seed
// gives.
std::vector<std::int64_t> scattered_pages(std::size_t pages, std::size_t values,
                                          std::uint32_t pages_per_value, std::uint64_t seed);

}  // namespace orlop::gpu_test
