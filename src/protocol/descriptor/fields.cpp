// SPDX-License-Identifier: Apache-2.0
#include "protocol/descriptor/fields.h"

#include <algorithm>
#include <vector>

namespace orlop {
namespace {

using D = NamespaceDescriptor;
using Text = std::string D::*;
using Number = std::uint32_t D::*;

constexpr DescriptorField text(std::string_view name, Text place) {
  return {name, place, nullptr, 0, 0, false, true};
}
constexpr DescriptorField number(std::string_view name, Number place, std::uint32_t least,
                                 std::uint32_t most) {
  return {name, nullptr, place, least, most, false, true};
}
constexpr DescriptorField rank(std::string_view name, Number place, std::uint32_t least) {
  return {name, nullptr, place, least, kMaxDescriptorNumber, true, false};
}
// Has a default, so a text need not name it.
constexpr DescriptorField optional(DescriptorField field) {
  field.required = false;
  return field;
}

constexpr DescriptorField kFields[] = {
    text("engine", &D::engine),
    text("layout", &D::layout),
    text("model", &D::model),
    text("revision", &D::revision),
    text("dtype", &D::dtype),
    optional(text("component", &D::component)),
    optional(text("codec", &D::codec)),
    number("page_tokens", &D::page_tokens, 1, kMaxDescriptorNumber),
    number("value_len", &D::value_len, 1, kMaxDescriptorValueLen),
    rank("tp_rank", &D::tp_rank, 0),
    rank("tp_size", &D::tp_size, 1),
    rank("pp_rank", &D::pp_rank, 0),
    rank("pp_size", &D::pp_size, 1),
    rank("cp_rank", &D::cp_rank, 0),
    rank("cp_size", &D::cp_size, 1),
    rank("first_layer", &D::first_layer, 0),
    rank("layers", &D::layers, 0),
    rank("first_head", &D::first_head, 0),
    rank("heads", &D::heads, 0),
};

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

bool is_continuation(unsigned char c) {
  return (c & 0xc0) == 0x80;
}

// Well-formed UTF-8 without control characters: what can be shown and compared as text.
bool is_plain_text(std::string_view s) {
  for (std::size_t i = 0; i < s.size();) {
    const auto c = static_cast<unsigned char>(s[i]);
    if (c < 0x20 || c == 0x7f) return false;
    const std::size_t length = c < 0x80                ? 1
                               : c >= 0xc2 && c < 0xe0 ? 2
                               : c >= 0xe0 && c < 0xf0 ? 3
                               : c >= 0xf0 && c < 0xf5 ? 4
                                                       : 0;
    if (length == 0 || i + length > s.size()) return false;
    for (std::size_t k = 1; k < length; ++k) {
      if (!is_continuation(static_cast<unsigned char>(s[i + k]))) return false;
    }
    // U+0080 to U+009F are controls as well: to a terminal U+009B is ESC [.
    if (c == 0xc2 && static_cast<unsigned char>(s[i + 1]) < 0xa0) return false;
    if (length >= 3) {  // overlong forms, surrogates, beyond U+10FFFF
      const auto second = static_cast<unsigned char>(s[i + 1]);
      if ((c == 0xe0 && second < 0xa0) || (c == 0xed && second >= 0xa0) ||
          (c == 0xf0 && second < 0x90) || (c == 0xf4 && second >= 0x90))
        return false;
    }
    i += length;
  }
  return true;
}

std::optional<std::string> refuse_text(std::string_view name, const std::string& value) {
  if (value.empty()) return std::string(name) + " is missing";
  if (value.size() > kMaxDescriptorString) {
    return std::string(name) + " has " + std::to_string(value.size()) + " bytes; at most " +
           std::to_string(kMaxDescriptorString) + " are allowed";
  }
  if (!is_plain_text(value))
    return std::string(name) + " is not plain text (UTF-8 without control characters)";
  return std::nullopt;
}

std::optional<std::string> refuse_rank(const char* name, std::uint32_t rank, std::uint32_t size) {
  if (rank < size) return std::nullopt;
  const std::string prefix = name;
  return prefix + "_rank is " + std::to_string(rank) + ", but " + prefix + "_size is " +
         std::to_string(size);
}

}  // namespace

std::span<const DescriptorField> descriptor_fields() {
  return kFields;
}

const DescriptorField* find_descriptor_field(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kFields), std::end(kFields),
                   [name](const DescriptorField& field) { return field.name == name; });
  return found == std::end(kFields) ? nullptr : &*found;
}

std::string_view nearest_descriptor_field(std::string_view name) {
  const std::string_view head = name.substr(0, 64);  // a name is outside input
  const auto nearest =
      std::min_element(std::begin(kFields), std::end(kFields),
                       [head](const DescriptorField& a, const DescriptorField& b) {
                         return edit_distance(head, a.name) < edit_distance(head, b.name);
                       });
  return nearest->name;
}

std::optional<std::string> refuse_descriptor(const NamespaceDescriptor& descriptor) {
  for (const DescriptorField& field : kFields) {
    if (field.text != nullptr) {
      if (auto wrong = refuse_text(field.name, descriptor.*field.text)) return wrong;
      continue;
    }
    const std::uint32_t value = descriptor.*field.number;
    if (value < field.least || value > field.most) {
      const std::string name(field.name);
      if (value == 0 && field.required) return name + " is missing";
      return name + " is " + std::to_string(value) + "; allowed are " +
             std::to_string(field.least) + " to " + std::to_string(field.most);
    }
  }
  if (auto wrong = refuse_rank("tp", descriptor.tp_rank, descriptor.tp_size)) return wrong;
  if (auto wrong = refuse_rank("pp", descriptor.pp_rank, descriptor.pp_size)) return wrong;
  return refuse_rank("cp", descriptor.cp_rank, descriptor.cp_size);
}

}  // namespace orlop
