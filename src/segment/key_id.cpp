// SPDX-License-Identifier: Apache-2.0
#include "segment/key_id.h"

#include "base/check.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace orlop::segment {

Digest digest_of(std::string_view text) {
  const XXH128_hash_t h = XXH3_128bits(text.data(), text.size());
  return {h.low64, h.high64};
}

KeyHasher::KeyHasher(const Digest& family) {
  // The digest may be of low entropy; generateSecret expands any seed into a usable secret. Its
  // output is part of the cluster's format: a golden test pins it against library changes.
  const std::uint64_t seed[2] = {family.lo, family.hi};
  CHECK(XXH3_generateSecret(secret_.data(), secret_.size(), seed, sizeof(seed)) == XXH_OK);
}

KeyId KeyHasher::hash(const void* key, std::size_t bytes) const {
  const XXH128_hash_t h = XXH3_128bits_withSecret(key, bytes, secret_.data(), secret_.size());
  return {h.low64, h.high64};
}

}  // namespace orlop::segment
