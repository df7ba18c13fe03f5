// SPDX-License-Identifier: Apache-2.0
// Canonical text of a descriptor: compact JSON, fields in the order of the table, all of them.
#include "protocol/descriptor/fields.h"

namespace orlop {
namespace {

void append_quoted(std::string& out, std::string_view value) {
  out += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;  // refuse_descriptor() let no control character pass
  }
  out += '"';
}

Result<std::string> text_of(const NamespaceDescriptor& descriptor, bool with_rank) {
  if (auto wrong = refuse_descriptor(descriptor))
    return fail(ErrorCode::kInvalidArgument, "namespace descriptor: " + *wrong);
  std::string out = "{";
  for (const DescriptorField& field : descriptor_fields()) {
    if (field.rank && !with_rank) continue;
    if (out.size() > 1) out += ',';
    append_quoted(out, field.name);
    out += ':';
    if (field.text != nullptr) {
      append_quoted(out, descriptor.*field.text);
    } else {
      out += std::to_string(descriptor.*field.number);
    }
  }
  out += '}';
  return out;
}

}  // namespace

Result<std::string> canonical_text(const NamespaceDescriptor& descriptor) {
  return text_of(descriptor, true);
}

Result<std::string> family_text(const NamespaceDescriptor& descriptor) {
  return text_of(descriptor, false);
}

}  // namespace orlop
