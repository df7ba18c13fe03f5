// SPDX-License-Identifier: Apache-2.0
// Damage to a host's memory as an input describes it: what a wild pointer, a bad DIMM or a torn
// write could leave, and, beyond that, rows that somebody forged with a good sum.
#pragma once

#include "host.h"
#include "input.h"

namespace orlop::fuzz {

// One act of damage; false: the input is at its end.
bool damage_once(Input& input, const Host& host, std::span<const HostChannel* const> channels);

// For seeds.
enum class Damage : std::uint8_t {
  kFlip,        // region, offset u16, mask u8
  kStore32,     // region, offset u16, value u32
  kStore64,     // region, offset u16, value u64
  kCopyRow,     // slot from, slot to
  kWord,        // slot, state, flags, generation delta i8
  kField,       // slot, field, value u32, sum it again?
  kSlab,        // slab, pages u16
  kNamespace,   // row, field, value u32
  kHeader,      // field, value u64
  kFixedField,  // offset u8, mask u8
  kChannel,     // channel, offset u16, 8 bytes
  kPin,         // channel, cell, slot, generation delta i8
  kValue,       // slot, offset u16, mask u8
  kCount,
};
enum class Region : std::uint8_t {
  kHeader,
  kSlabs,
  kNamespaces,
  kTexts,
  kSlots,
  kIndex0,
  kIndex1,
  kCount,
};

}  // namespace orlop::fuzz
