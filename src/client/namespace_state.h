// SPDX-License-Identifier: Apache-2.0
// An open namespace of one client. Immutable but for where the node has it.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/ids.h"
#include "orlop/namespace.h"
#include "segment/key_id.h"

namespace orlop::detail {

class ClientCore;

struct NamespaceState {
  NamespaceState(const ClientCore* core, NamespaceDescriptor wanted, std::string canonical,
                 const std::string& family_text)
      : owner(core),
        descriptor(std::move(wanted)),
        text(std::move(canonical)),
        digest(segment::digest_of(text)),
        family(segment::digest_of(family_text)),
        hasher(family) {}

  // Row in the namespace table of the attachment with this number; none: not opened there yet.
  std::optional<NamespaceRow> row(std::uint64_t attachment_number) const {
    const std::uint64_t word = place.load(std::memory_order_acquire);
    if (word >> 32 != (attachment_number & 0xffffffff) || static_cast<std::uint32_t>(word) == 0)
      return std::nullopt;
    return NamespaceRow{static_cast<std::uint32_t>(word) - 1};
  }
  void set_row(std::uint64_t attachment_number, NamespaceRow row) {
    place.store(attachment_number << 32 | (row.value + 1), std::memory_order_release);
  }

  const ClientCore* const owner;  // identity only
  const NamespaceDescriptor descriptor;
  const std::string text;
  const segment::Digest digest;
  const segment::Digest family;
  const segment::KeyHasher hasher;
  std::atomic<std::uint64_t> place{0};  // {low half of the attachment's number, row + 1}
};

}  // namespace orlop::detail
