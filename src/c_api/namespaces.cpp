// SPDX-License-Identifier: Apache-2.0
// Namespaces and the text forms of their descriptors.
#include <algorithm>
#include <memory>

#include "c_api/arguments.h"
#include "c_api/guard.h"
#include "c_api/handles.h"
#include "c_api/structs.h"
#include "orlop/orlop.h"

using namespace orlop::c_api;
using orlop::NamespaceDescriptor;
using orlop::Result;

namespace {

Result<void> open(orlop_client* client, const Result<NamespaceDescriptor>& descriptor,
                  orlop_namespace** out) {
  if (!descriptor) return std::unexpected(descriptor.error());
  auto made = std::make_unique<orlop_namespace>();
  auto opened = client->object->open_namespace(*descriptor);
  if (!opened) return std::unexpected(opened.error());
  made->object.emplace(std::move(*opened));
  *out = made.release();
  return {};
}

// As the header promises for every text that goes out.
Result<void> write_text(const Result<std::string>& text, char* buffer, std::size_t capacity,
                        std::size_t* size) {
  if (!text) return std::unexpected(text.error());
  *size = text->size();
  if (auto checked = check_room(text->size(), buffer, capacity); !checked) return checked;
  if (buffer != nullptr) std::copy(text->begin(), text->end(), buffer);
  return {};
}

orlop_namespace_descriptor in_c(const NamespaceDescriptor& from, char* buffer) {
  orlop_namespace_descriptor out{};
  const auto place = [&buffer](const std::string& text) {
    const orlop_text placed{buffer, text.size()};
    buffer = std::copy(text.begin(), text.end(), buffer);
    return placed;
  };
  out.engine = place(from.engine);
  out.layout = place(from.layout);
  out.model = place(from.model);
  out.revision = place(from.revision);
  out.dtype = place(from.dtype);
  out.component = place(from.component);
  out.codec = place(from.codec);
  out.page_tokens = from.page_tokens;
  out.value_len = from.value_len;
  out.tp_rank = from.tp_rank;
  out.tp_size = from.tp_size;
  out.pp_rank = from.pp_rank;
  out.pp_size = from.pp_size;
  out.cp_rank = from.cp_rank;
  out.cp_size = from.cp_size;
  out.first_layer = from.first_layer;
  out.layers = from.layers;
  out.first_head = from.first_head;
  out.heads = from.heads;
  return out;
}

}  // namespace

orlop_status orlop_open_namespace(orlop_client* client,
                                  const orlop_namespace_descriptor* descriptor,
                                  orlop_namespace** out) {
  if (out != nullptr) *out = nullptr;
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("client", client); !checked) return checked;
    if (auto checked = check_out("out", out); !checked) return checked;
    return open(client, read_descriptor(descriptor), out);
  });
}

orlop_status orlop_open_namespace_json(orlop_client* client, orlop_text json,
                                       orlop_namespace** out) {
  if (out != nullptr) *out = nullptr;
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("client", client); !checked) return checked;
    if (auto checked = check_out("out", out); !checked) return checked;
    const auto text = read_text("json", json);
    if (!text) return std::unexpected(text.error());
    return open(client, orlop::parse_descriptor(*text), out);
  });
}

void orlop_namespace_free(orlop_namespace* ns) {
  free_handle(ns);
}

uint32_t orlop_namespace_value_len(const orlop_namespace* ns) {
  return guarded_value(uint32_t{0}, [&] { return usable(ns) ? ns->object->value_len() : 0; });
}

int orlop_namespace_resolved(const orlop_namespace* ns) {
  return guarded_value(0, [&] { return usable(ns) && ns->object->resolved() ? 1 : 0; });
}

orlop_status orlop_canonical_text(const orlop_namespace_descriptor* descriptor, char* buffer,
                                  size_t capacity, size_t* size) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_out("size", size); !checked) return checked;
    const auto read = read_descriptor(descriptor);
    if (!read) return std::unexpected(read.error());
    return write_text(orlop::canonical_text(*read), buffer, capacity, size);
  });
}

orlop_status orlop_family_text(const orlop_namespace_descriptor* descriptor, char* buffer,
                               size_t capacity, size_t* size) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_out("size", size); !checked) return checked;
    const auto read = read_descriptor(descriptor);
    if (!read) return std::unexpected(read.error());
    return write_text(orlop::family_text(*read), buffer, capacity, size);
  });
}

orlop_status orlop_parse_descriptor(orlop_text json, orlop_namespace_descriptor* descriptor,
                                    char* buffer, size_t capacity, size_t* size) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_out("size", size); !checked) return checked;
    if (auto checked = check_out("descriptor", descriptor); !checked) return checked;
    if (auto checked = check_struct_size("descriptor", descriptor->struct_size, sizeof *descriptor);
        !checked)
      return checked;
    const auto text = read_text("json", json);
    if (!text) return std::unexpected(text.error());
    const auto parsed = orlop::parse_descriptor(*text);
    if (!parsed) return std::unexpected(parsed.error());
    *size = parsed->engine.size() + parsed->layout.size() + parsed->model.size() +
            parsed->revision.size() + parsed->dtype.size() + parsed->component.size() +
            parsed->codec.size();
    if (auto checked = check_room(*size, buffer, capacity); !checked) return checked;
    if (buffer != nullptr) write_struct(descriptor, in_c(*parsed, buffer));
    return {};
  });
}
