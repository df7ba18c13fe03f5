// SPDX-License-Identifier: Apache-2.0
// Which pages somebody wanted gone: a reason for a group to be doomed, and a floor below which a
// page must not be seen again.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace orlop::simulation {

// Order of all stores of slot words in the run.
using Sequence = std::uint64_t;

class RemovalOracle {
 public:
  // keys empty: the whole namespace (flush). Returns a number for closed().
  std::uint64_t posted(std::vector<NamespaceRow> rows, std::vector<KeyId> keys, Sequence now);
  // done: answered with success. Else nobody will serve it any more (reset).
  void closed(std::uint64_t removal, bool done, Sequence now);

  // A removal of the page was under way at some time after `since`.
  bool wanted_since(NamespaceRow row, const KeyId& key, Sequence since) const;
  // A plan begun now must see no page that was committed at or before this.
  Sequence floor(NamespaceRow row, const KeyId& key) const;

 private:
  struct Removal {
    std::vector<NamespaceRow> rows;
    std::vector<KeyId> keys;
    Sequence posted_at = 0;
  };
  using Page = std::pair<NamespaceRow, KeyId>;
  static Page whole(NamespaceRow row) { return {row, KeyId{}}; }
  template <class Fn>
  static void each_page(const Removal& removal, Fn&& fn);

  std::uint64_t next_ = 1;
  std::map<std::uint64_t, Removal> open_;
  std::map<Page, std::uint32_t> open_count_;
  std::map<Page, Sequence> last_closed_;
  std::map<Page, Sequence> floor_;
};

}  // namespace orlop::simulation
