// SPDX-License-Identifier: Apache-2.0
// Test support. Recovery, rule by rule: the state that a kill leaves is built by hand, words are
// stored as the dying server had got to. The simulator kills between any two stores; in the tests
// that use this each verdict is named.
#pragma once

#include "protocol/node/node_fixture.h"

namespace orlop::protocol {

class RecoverTest : public ::testing::Test {
 protected:
  NodeWorld world;
  ClientId client = world.attach("a");
  NamespaceRow row = world.open(client);

  static SlotId slot(const NodeWorld::Started& of, std::size_t i) {
    return SlotId{of.grants[i].slot};
  }
  void set(SlotId id, segment::SlotState state, std::uint8_t flags = 0) {
    segment::SlotRow& r = world.area().slot(id);
    segment::SlotWord word = r.load_word();
    word.state = state;
    word.flags = flags;
    r.store_word(word);
  }
  void doom(SlotId id) { set(id, segment::SlotState::kRetiring, segment::kFlagDoomed); }
  // The first stores of a commit: checksums of all, then LocalReady from the last member on.
  void commit_partly(const NodeWorld::Started& of, std::size_t ready) {
    const auto entries = of.entries();
    for (const CommitEntry& entry : entries) {
      segment::SlotRow& r = world.area().slot(SlotId{entry.slot});
      r.store_checksums(entry.checksum, segment::fields_sum(r.load_fields(), entry.checksum,
                                                            Generation{entry.generation}));
    }
    for (std::size_t i = entries.size(); i-- > entries.size() - ready;)
      set(SlotId{entries[i].slot}, segment::SlotState::kLocalReady);
  }
};

}  // namespace orlop::protocol
