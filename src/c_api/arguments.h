// SPDX-License-Identifier: Apache-2.0
// C arguments as the C++ client takes them. Pointers are checked here; what they point to is
// checked by the client, in its words. Nothing is kept beyond the call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orlop/client.h"
#include "orlop/orlop.h"

namespace orlop::c_api {

// {NULL, n} is refused, {NULL, 0} is empty.
Result<void> check_bytes(std::string_view argument, const void* data, std::size_t size);
Result<std::string_view> read_text(std::string_view argument, orlop_text text);
// For what becomes a file name: no zero byte, which would cut it.
Result<std::string_view> read_path(std::string_view argument, orlop_text text);

// An array with an entry per key at most. Errors: too many to be, NULL with a count.
Result<void> check_array(std::string_view argument, const void* items, std::size_t count);

// The keys of one call: views of the caller's bytes. One allocation beyond kFew keys, none below.
class KeyViews {
 public:
  Result<void> read(const orlop_keys* keys);
  std::span<const Key> get() const { return keys_; }

 private:
  static constexpr std::size_t kFew = 64;
  Result<void> read_items(const orlop_keys& keys, std::span<Key> views);

  std::array<Key, kFew> few_;
  std::vector<Key> many_;
  std::span<const Key> keys_;
};

// options may be null: all defaults.
Result<ClientOptions> read_options(const orlop_client_options* options);
Result<PutOptions> read_options(const orlop_put_options* options);
Result<GetOptions> read_options(const orlop_get_options* options);
Result<NamespaceDescriptor> read_descriptor(const orlop_namespace_descriptor* descriptor);

Result<std::vector<std::span<const std::byte>>> read_buffers(const orlop_bytes* buffers,
                                                             std::size_t count);
Result<std::vector<std::span<std::byte>>> read_buffers(const orlop_buffer* buffers,
                                                       std::size_t count);

// The text convention of the header: size always, bytes when they fit or an error.
Result<void> check_room(std::size_t needed, const char* buffer, std::size_t capacity);

}  // namespace orlop::c_api
