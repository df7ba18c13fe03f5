// SPDX-License-Identifier: Apache-2.0
// What a value must look like: bytes derived from its identity alone, so that any reader can tell
// whether it was given the right page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"

namespace orlop::simulation {

struct ValueIdentity {
  KeyId key;
  std::uint32_t ns = 0;  // number of the namespace in the simulation
  constexpr bool operator==(const ValueIdentity&) const = default;
};

// Writes the bytes [from, to) of the value. from, to: multiples of 8 or the value's end.
void write_value(const ValueIdentity& identity, std::span<std::byte> value, std::size_t from,
                 std::size_t to);
// True if the bytes [from, to) are as write_value() makes them.
bool value_is_right(const ValueIdentity& identity, std::span<const std::byte> value,
                    std::size_t from, std::size_t to);
// Bound to the identity, as the product's checksum is. Any bytes have one.
std::uint64_t value_checksum(const ValueIdentity& identity, std::span<const std::byte> value);

}  // namespace orlop::simulation
