// SPDX-License-Identifier: Apache-2.0
// Why gets miss: what the node remembers of keys that left, and the causes it counts.
//
// Clients look keys up by themselves and tell the node a lossy sample of what they did not find:
// the first missing key of each get (segment/missed_ring.h). The node names the cause of each from
// what it knows when it drains the sample, which is before it handles that client's next put,
// remove or flush, before every eviction and before every status.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/ids.h"
#include "base/sparse_array.h"

namespace orlop::protocol {

enum class MissCause : std::uint8_t {
  kNeverWritten = 0,    // nothing known: never put on this node, or left too long ago
  kEvicted = 1,         // was here, left by eviction
  kRemoved = 2,         // remove, or the node found its bytes wrong
  kFlushed = 3,         // the namespace was flushed
  kRefused = 4,         // its put got no memory (no_space, over_quota, not_admitted) or was not
                        // committed (aborted, evicted, its writer died)
  kOtherNamespace = 5,  // the same key is readable in another namespace of the family: another
                        // rank, layout or component
};
inline constexpr std::size_t kMissCauseCount = 6;
// Stable lower-case name ("never_written"), for metrics and status.
std::string_view to_string(MissCause cause);

// Keys that left, most recent first in their place: bounded, lossy, one place per hash.
//
// Guarantees: left() then find() of the same identity finds it until another identity falls into
// its place (of kPlaces); never finds an identity that was not told, but for 64 bits of hash.
// Memory: 16 bytes a place, resident only where something left. Thread: none.
class GoneKeys {
 public:
  static constexpr std::size_t kPlaces = 65'536;  // 1 MiB; power of two
  struct Gone {
    MissCause cause;
    MonoNs age;  // in whole seconds
  };
  GoneKeys() : places_(kPlaces) {}

  // cause: one of kEvicted, kRemoved, kFlushed, kRefused.
  void left(const KeyId& key, NamespaceIndex ns, MissCause cause, MonoNs now);
  std::optional<Gone> find(const KeyId& key, NamespaceIndex ns, MonoNs now) const;

 private:
  struct Place {
    std::uint64_t tag;
    std::uint32_t ns;       // 0: empty
    std::uint32_t seconds;  // when << 3 | cause; wraps after 17 years of uptime
  };
  static std::size_t place_of(const KeyId& key, NamespaceIndex ns);
  static std::uint64_t tag_of(const KeyId& key);

  SparseArray<Place> places_;
};

}  // namespace orlop::protocol
