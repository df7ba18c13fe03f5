// SPDX-License-Identifier: Apache-2.0
// Checks of what callers hand in, before anything is reserved or posted. Each error names argument,
// index and remedy. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "orlop/client.h"
#include "orlop/error.h"
#include "segment/key_id.h"

namespace orlop::client {

// 1..kMaxKeys keys of 1..kMaxKeyBytes bytes each.
Result<void> check_keys(std::span<const Key> keys);
// Empty, or positive lengths that add up to `keys`.
Result<void> check_group_lens(std::span<const std::uint32_t> lens, std::size_t keys);
// Empty, or one entry a key, all the same inside a group.
Result<void> check_replicate_mask(const std::vector<bool>& mask,
                                  std::span<const std::uint32_t> lens, std::size_t keys);
// No two equal ids. scratch: reused by the caller from call to call.
Result<void> check_unique(std::span<const KeyId> ids, std::vector<std::uint32_t>& scratch);
// One buffer a key, each value_len bytes.
template <class Byte>
Result<void> check_buffers(std::span<const std::span<Byte>> buffers, std::size_t keys,
                           std::uint32_t value_len);

// Groups wholly inside the first `raw` keys: how many, and how many keys they have.
struct WholeGroups {
  std::uint32_t groups = 0;
  std::uint32_t keys = 0;
};
WholeGroups whole_groups(std::span<const std::uint32_t> lens, std::uint32_t raw);

}  // namespace orlop::client
