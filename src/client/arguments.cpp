// SPDX-License-Identifier: Apache-2.0
#include "client/arguments.h"

#include <bit>
#include <string>

#include "client/limits.h"

namespace orlop::client {

namespace {

std::unexpected<Error> invalid(std::string text) {
  return fail(ErrorCode::kInvalidArgument, std::move(text));
}

std::string at(std::string_view argument, std::size_t index) {
  return std::string(argument) + "[" + std::to_string(index) + "]";
}

}  // namespace

Result<void> check_keys(std::span<const Key> keys) {
  if (keys.empty()) return invalid("keys: is empty; give at least one key");
  if (keys.size() > kMaxKeys) {
    return invalid("keys: has " + std::to_string(keys.size()) + " keys, at most " +
                   std::to_string(kMaxKeys) + " go into one call; split it");
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!keys[i].empty() && keys[i].size() <= kMaxKeyBytes) continue;
    return invalid(at("keys", i) + ": has " + std::to_string(keys[i].size()) +
                   " bytes, allowed are 1 to " + std::to_string(kMaxKeyBytes) +
                   "; hash longer keys first");
  }
  return {};
}

Result<void> check_group_lens(std::span<const std::uint32_t> lens, std::size_t keys) {
  if (lens.empty()) return {};
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < lens.size(); ++i) {
    if (lens[i] == 0)
      return invalid(at("atomic_group_lens", i) + ": is 0; every group has at least one key");
    sum += lens[i];
    if (sum > keys) {
      return invalid(at("atomic_group_lens", i) + ": the groups up to here have " +
                     std::to_string(sum) + " keys, the call has " + std::to_string(keys) +
                     "; the lengths must add up to the number of keys");
    }
  }
  if (sum == keys) return {};
  return invalid("atomic_group_lens: add up to " + std::to_string(sum) + ", the call has " +
                 std::to_string(keys) + " keys; the lengths must add up to that");
}

Result<void> check_replicate_mask(const std::vector<bool>& mask,
                                  std::span<const std::uint32_t> lens, std::size_t keys) {
  if (mask.empty()) return {};
  if (mask.size() != keys) {
    return invalid("replicate_mask: has " + std::to_string(mask.size()) + " entries for " +
                   std::to_string(keys) + " keys; give one per key or none");
  }
  std::size_t first = 0;
  for (std::size_t group = 0; group < lens.size(); first += lens[group++]) {
    for (std::size_t i = first + 1; i < first + lens[group]; ++i) {
      if (mask[i] == mask[first]) continue;
      return invalid(at("replicate_mask", i) + ": differs from entry " + std::to_string(first) +
                     " of the same group " + std::to_string(group) +
                     "; a group is replicated whole or not at all");
    }
  }
  return {};
}

Result<void> check_unique(std::span<const KeyId> ids, std::vector<std::uint32_t>& scratch) {
  const auto twice = [](std::size_t first, std::size_t second) {
    return invalid(at("keys", second) + ": is the same key as " + at("keys", first) +
                   "; every key of a put may occur once");
  };
  constexpr std::size_t kFew = 12;  // below, comparing all pairs is quicker than a table
  if (ids.size() <= kFew) {
    for (std::size_t i = 1; i < ids.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (ids[i] == ids[j]) return twice(j, i);
    return {};
  }
  // Open addressing, half full at most; entries are index + 1. KeyIds are hashes already.
  const std::size_t size = std::bit_ceil(2 * ids.size());
  scratch.assign(size, 0);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::size_t place = ids[i].lo & (size - 1);
    for (; scratch[place] != 0; place = (place + 1) & (size - 1))
      if (ids[scratch[place] - 1] == ids[i]) return twice(scratch[place] - 1, i);
    scratch[place] = static_cast<std::uint32_t>(i + 1);
  }
  return {};
}

template <class Byte>
Result<void> check_buffers(std::span<const std::span<Byte>> buffers, std::size_t keys,
                           std::uint32_t value_len) {
  if (buffers.size() != keys) {
    return invalid("buffers: has " + std::to_string(buffers.size()) + " entries for " +
                   std::to_string(keys) + " keys; give one per key");
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].size() == value_len) continue;
    return invalid(at("buffers", i) + ": has " + std::to_string(buffers[i].size()) +
                   " bytes, the namespace's value_len is " + std::to_string(value_len));
  }
  return {};
}
template Result<void> check_buffers(std::span<const std::span<std::byte>>, std::size_t,
                                    std::uint32_t);
template Result<void> check_buffers(std::span<const std::span<const std::byte>>, std::size_t,
                                    std::uint32_t);

WholeGroups whole_groups(std::span<const std::uint32_t> lens, std::uint32_t raw) {
  if (lens.empty()) return {raw, raw};
  WholeGroups whole;
  for (const std::uint32_t length : lens) {
    if (length > raw - whole.keys) break;
    whole.keys += length;
    ++whole.groups;
  }
  return whole;
}

}  // namespace orlop::client
