// SPDX-License-Identifier: Apache-2.0
// KeyId = XXH3-128(key bytes, secret derived from the digest of the namespace family). About 10 ns.
// One page has one KeyId on all ranks of a family.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/ids.h"

namespace orlop::segment {

struct Digest {
  std::uint64_t lo = 0, hi = 0;
  constexpr bool operator==(const Digest&) const = default;
};
// XXH3-128 of a text; identity of descriptors (the text itself is compared too).
Digest digest_of(std::string_view text);

class KeyHasher {
 public:
  explicit KeyHasher(const Digest& family);
  KeyId hash(const void* key, std::size_t bytes) const;

 private:
  alignas(64) std::array<std::byte, 192> secret_;
};

}  // namespace orlop::segment
