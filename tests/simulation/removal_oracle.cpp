// SPDX-License-Identifier: Apache-2.0
#include "removal_oracle.h"

#include <algorithm>

namespace orlop::simulation {

template <class Fn>
void RemovalOracle::each_page(const Removal& removal, Fn&& fn) {
  for (const NamespaceRow row : removal.rows) {
    if (removal.keys.empty()) fn(whole(row));
    for (const KeyId& key : removal.keys) fn(Page{row, key});
  }
}

std::uint64_t RemovalOracle::posted(std::vector<NamespaceRow> rows, std::vector<KeyId> keys,
                                    Sequence now) {
  const Removal removal{std::move(rows), std::move(keys), now};
  each_page(removal, [this](const Page& page) { ++open_count_[page]; });
  open_.emplace(next_, removal);
  return next_++;
}

void RemovalOracle::closed(std::uint64_t number, bool done, Sequence now) {
  const auto found = open_.find(number);
  if (found == open_.end()) return;
  const Removal& removal = found->second;
  each_page(removal, [&](const Page& page) {
    --open_count_[page];
    last_closed_[page] = now;
    if (done) floor_[page] = std::max(floor_[page], removal.posted_at);
  });
  open_.erase(found);
}

bool RemovalOracle::wanted_since(NamespaceRow row, const KeyId& key, Sequence since) const {
  for (const Page& page : {Page{row, key}, whole(row)}) {
    const auto open = open_count_.find(page);
    if (open != open_count_.end() && open->second > 0) return true;
    const auto last = last_closed_.find(page);
    if (last != last_closed_.end() && last->second >= since) return true;
  }
  return false;
}

Sequence RemovalOracle::floor(NamespaceRow row, const KeyId& key) const {
  Sequence highest = 0;
  for (const Page& page : {Page{row, key}, whole(row)}) {
    const auto found = floor_.find(page);
    if (found != floor_.end()) highest = std::max(highest, found->second);
  }
  return highest;
}

}  // namespace orlop::simulation
