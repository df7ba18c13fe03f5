// SPDX-License-Identifier: Apache-2.0
#include "c_api/arguments.h"

#include <limits>

#include "c_api/structs.h"
#include "client/limits.h"

namespace orlop::c_api {

namespace {

std::unexpected<Error> invalid(std::string text) {
  return fail(ErrorCode::kInvalidArgument, std::move(text));
}

std::string at(std::string_view argument, std::size_t index) {
  return std::string(argument) + "[" + std::to_string(index) + "]";
}

// 0: the default stays.
Result<void> read_milliseconds(std::string_view argument, std::int64_t given, Milliseconds* into) {
  if (given < 0) {
    return invalid(std::string(argument) + ": is " + std::to_string(given) +
                   "; give 0 for the default, or milliseconds");
  }
  if (given > 0) *into = Milliseconds{given};
  return {};
}

Result<std::vector<std::uint32_t>> read_groups(const std::uint32_t* lens, std::size_t count) {
  if (auto checked = check_array("atomic_group_lens", lens, count); !checked)
    return std::unexpected(checked.error());
  return std::vector<std::uint32_t>(lens, lens + count);
}

template <class Byte, class Item>
Result<std::vector<std::span<Byte>>> spans_of(const Item* buffers, std::size_t count) {
  if (auto checked = check_array("buffers", buffers, count); !checked)
    return std::unexpected(checked.error());
  std::vector<std::span<Byte>> spans;
  spans.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (auto checked = check_bytes(at("buffers", i), buffers[i].data, buffers[i].size); !checked)
      return std::unexpected(checked.error());
    spans.emplace_back(static_cast<Byte*>(buffers[i].data), buffers[i].size);
  }
  return spans;
}

}  // namespace

Result<void> check_bytes(std::string_view argument, const void* data, std::size_t size) {
  if (data != nullptr || size == 0) return {};
  return invalid(std::string(argument) + ": data is NULL and size is " + std::to_string(size));
}

Result<std::string_view> read_text(std::string_view argument, orlop_text text) {
  if (auto checked = check_bytes(argument, text.data, text.size); !checked)
    return std::unexpected(checked.error());
  return std::string_view(text.data, text.size);
}

Result<std::string_view> read_path(std::string_view argument, orlop_text text) {
  auto path = read_text(argument, text);
  if (!path) return path;
  if (const std::size_t zero = path->find('\0'); zero != std::string_view::npos)
    return invalid(std::string(argument) + ": byte " + std::to_string(zero) +
                   " is zero; give the length without the terminator");
  return path;
}

Result<void> check_array(std::string_view argument, const void* items, std::size_t count) {
  if (count > client::kMaxKeys) {
    return invalid(std::string(argument) + ": has " + std::to_string(count) + " entries, at most " +
                   std::to_string(client::kMaxKeys) + " keys go into one call; split it");
  }
  if (items != nullptr || count == 0) return {};
  return invalid(std::string(argument) + ": is NULL and its count is " + std::to_string(count));
}

Result<void> KeyViews::read(const orlop_keys* keys) {
  if (keys == nullptr) return invalid("keys: is NULL; give at least one key");
  if (keys->items != nullptr && keys->packed != nullptr)
    return invalid("keys: has both items and packed; set one of them");
  const void* const form = keys->items != nullptr ? keys->items : keys->packed;
  if (keys->count > client::kMaxKeys) {  // the client's words, before there are so many views
    return invalid("keys: has " + std::to_string(keys->count) + " keys, at most " +
                   std::to_string(client::kMaxKeys) + " go into one call; split it");
  }
  if (auto checked = check_array("keys", form, keys->count); !checked) return checked;
  std::span<Key> views(few_.data(), std::min(keys->count, kFew));
  if (keys->count > kFew) {
    many_.resize(keys->count);
    views = many_;
  }
  keys_ = views;
  if (keys->items != nullptr) return read_items(*keys, views);
  const auto* bytes = static_cast<const char*>(keys->packed);
  // A length out of range is the client's to refuse, at the first key; no arithmetic with it.
  const std::size_t stride = keys->key_len <= client::kMaxKeyBytes ? keys->key_len : 0;
  for (std::size_t i = 0; i < views.size(); ++i) views[i] = Key(bytes + i * stride, keys->key_len);
  return {};
}

Result<void> KeyViews::read_items(const orlop_keys& keys, std::span<Key> views) {
  for (std::size_t i = 0; i < views.size(); ++i) {
    const orlop_bytes& item = keys.items[i];
    if (item.data == nullptr && item.size != 0)
      return check_bytes(at("keys", i), item.data, item.size);
    views[i] = Key(static_cast<const char*>(item.data), item.size);
  }
  return {};
}

Result<ClientOptions> read_options(const orlop_client_options* options) {
  ClientOptions read;
  if (options == nullptr) return read;
  const auto given = read_struct("options", options);
  if (!given) return std::unexpected(given.error());
  const auto socket = read_path("options.socket", given->socket);
  if (!socket) return std::unexpected(socket.error());
  const auto name = read_text("options.name", given->name);
  if (!name) return std::unexpected(name.error());
  read.socket = *socket;
  read.name = *name;
  if (auto time =
          read_milliseconds("options.call_budget_ms", given->call_budget_ms, &read.call_budget);
      !time)
    return std::unexpected(time.error());
  if (auto time =
          read_milliseconds("options.handle_ttl_ms", given->handle_ttl_ms, &read.handle_ttl);
      !time)
    return std::unexpected(time.error());
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (given->ledger_cells > kMost) {
    return invalid("options.ledger_cells: is " + std::to_string(given->ledger_cells) +
                   ", at most " + std::to_string(kMost) + " can be asked for");
  }
  if (given->ledger_cells != 0) read.ledger_cells = static_cast<std::uint32_t>(given->ledger_cells);
  if (given->on_ready != nullptr) {
    read.on_ready = [call = given->on_ready, context = given->on_ready_context](bool ready) {
      call(context, ready ? 1 : 0);
    };
  }
  return read;
}

Result<PutOptions> read_options(const orlop_put_options* options) {
  PutOptions read;
  if (options == nullptr) return read;
  const auto given = read_struct("options", options);
  if (!given) return std::unexpected(given.error());
  auto groups = read_groups(given->atomic_group_lens, given->atomic_group_count);
  if (!groups) return std::unexpected(groups.error());
  read.atomic_group_lens = std::move(*groups);
  if (auto checked = check_bytes("parent", given->parent.data, given->parent.size); !checked)
    return std::unexpected(checked.error());
  if (given->parent.data != nullptr)
    read.parent = Key(static_cast<const char*>(given->parent.data), given->parent.size);
  const std::uint8_t* const mask = given->replicate_mask;
  if (auto checked = check_array("replicate_mask", mask, given->replicate_mask_count); !checked)
    return std::unexpected(checked.error());
  for (std::size_t i = 0; i < given->replicate_mask_count; ++i) {
    if (mask[i] > 1)
      return invalid(at("replicate_mask", i) + ": is " + std::to_string(mask[i]) + "; give 0 or 1");
    read.replicate_mask.push_back(mask[i] == 1);
  }
  constexpr std::uint64_t kKnown =
      ORLOP_PUT_REPLICATE | ORLOP_PUT_WRITE_THROUGH | ORLOP_PUT_DEADLINE;
  if ((given->flags & ~kKnown) != 0) {
    return invalid("options.flags: has unknown bits " + std::to_string(given->flags & ~kKnown) +
                   ", known are " + std::to_string(kKnown));
  }
  read.replicate = (given->flags & ORLOP_PUT_REPLICATE) != 0;
  read.write_through = (given->flags & ORLOP_PUT_WRITE_THROUGH) != 0;
  if ((given->flags & ORLOP_PUT_DEADLINE) != 0) {
    read.deadline = Milliseconds{given->deadline_ms};
  } else if (given->deadline_ms != 0) {
    return invalid("options.deadline_ms: is " + std::to_string(given->deadline_ms) +
                   " without the flag ORLOP_PUT_DEADLINE; set both or neither");
  }
  return read;
}

Result<GetOptions> read_options(const orlop_get_options* options) {
  GetOptions read;
  if (options == nullptr) return read;
  const auto given = read_struct("options", options);
  if (!given) return std::unexpected(given.error());
  auto groups = read_groups(given->atomic_group_lens, given->atomic_group_count);
  if (!groups) return std::unexpected(groups.error());
  read.atomic_group_lens = std::move(*groups);
  return read;
}

Result<NamespaceDescriptor> read_descriptor(const orlop_namespace_descriptor* descriptor) {
  if (descriptor == nullptr) return invalid("descriptor: is NULL");
  const auto given = read_struct("descriptor", descriptor);
  if (!given) return std::unexpected(given.error());
  NamespaceDescriptor read;
  const auto text = [](const char* name, orlop_text from, std::string& into) -> Result<void> {
    const auto words = read_text(std::string("descriptor.") + name, from);
    if (!words) return std::unexpected(words.error());
    if (!words->empty()) into = *words;  // else the default of the C++ struct stays
    return {};
  };
  for (const auto& result :
       {text("engine", given->engine, read.engine), text("layout", given->layout, read.layout),
        text("model", given->model, read.model), text("revision", given->revision, read.revision),
        text("dtype", given->dtype, read.dtype),
        text("component", given->component, read.component),
        text("codec", given->codec, read.codec)}) {
    if (!result) return std::unexpected(result.error());
  }
  const auto size_of = [](std::uint32_t size) { return size == 0 ? 1 : size; };
  read.page_tokens = given->page_tokens;
  read.value_len = given->value_len;
  read.tp_rank = given->tp_rank;
  read.tp_size = size_of(given->tp_size);
  read.pp_rank = given->pp_rank;
  read.pp_size = size_of(given->pp_size);
  read.cp_rank = given->cp_rank;
  read.cp_size = size_of(given->cp_size);
  read.first_layer = given->first_layer;
  read.layers = given->layers;
  read.first_head = given->first_head;
  read.heads = given->heads;
  return read;
}

Result<std::vector<std::span<const std::byte>>> read_buffers(const orlop_bytes* buffers,
                                                             std::size_t count) {
  return spans_of<const std::byte>(buffers, count);
}
Result<std::vector<std::span<std::byte>>> read_buffers(const orlop_buffer* buffers,
                                                       std::size_t count) {
  return spans_of<std::byte>(buffers, count);
}

Result<void> check_room(std::size_t needed, const char* buffer, std::size_t capacity) {
  if (buffer == nullptr && capacity != 0)
    return invalid("buffer: is NULL and capacity is " + std::to_string(capacity));
  if (capacity >= needed || buffer == nullptr) return {};
  return invalid("buffer: has " + std::to_string(capacity) + " bytes, " + std::to_string(needed) +
                 " are needed");
}

}  // namespace orlop::c_api
