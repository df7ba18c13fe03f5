// SPDX-License-Identifier: Apache-2.0
// The fields of a namespace descriptor in canonical order: names, places, limits. Writer and parser
// both go by this table, so they cannot disagree.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "orlop/namespace.h"

namespace orlop {

inline constexpr std::size_t kMaxDescriptorString = 256;             // bytes of one field
inline constexpr std::uint32_t kMaxDescriptorValueLen = 512u << 20;  // the largest slab
inline constexpr std::uint32_t kMaxDescriptorNumber = 1u << 30;  // no rank, layer or head is near

struct DescriptorField {
  std::string_view name;
  std::string NamespaceDescriptor::* text = nullptr;  // one of the two is set
  std::uint32_t NamespaceDescriptor::* number = nullptr;
  std::uint32_t least = 0, most = kMaxDescriptorNumber;  // of numbers
  bool rank = false;  // a rank coordinate: not part of the family
  bool required = false;
};

// Canonical order: the family's fields first.
std::span<const DescriptorField> descriptor_fields();
const DescriptorField* find_descriptor_field(std::string_view name);
// The field whose name has the least edit distance; for "did you mean".
std::string_view nearest_descriptor_field(std::string_view name);

// What is wrong with the values, naming the field; nullopt = nothing.
std::optional<std::string> refuse_descriptor(const NamespaceDescriptor& descriptor);

}  // namespace orlop
