// SPDX-License-Identifier: Apache-2.0
// The planted bug of the causes of misses changes a cause.
#include "base/planted.h"
#include "protocol/node/node_fixture.h"
#include "segment/missed_ring.h"

namespace orlop::protocol {
namespace {

std::uint64_t removed_after_a_remove_by_another_rank(PlantedBug bug) {
  NodeWorld world;
  const ClientId client = world.attach();
  const NamespaceRow own = world.open(client), other = world.open(client, 4'096, "model", 1);
  world.put(client, other, {key(1)});
  world.step(event::Remove{client, world.next_request(), other, std::vector{key(1)}});
  segment::write_missed(world.channel(client), {key(1), own});
  g_planted_bug = bug;
  world.node().read_clients(world.now);
  g_planted_bug = PlantedBug::kNone;
  return world.node().counters().missed[static_cast<std::size_t>(MissCause::kRemoved)];
}

TEST(MissedPlanted, What_left_another_rank_counts_as_ours) {
  EXPECT_EQ(removed_after_a_remove_by_another_rank(PlantedBug::kNone), 0u);
  EXPECT_EQ(removed_after_a_remove_by_another_rank(PlantedBug::kGoneOfOtherNamespace), 1u);
}

}  // namespace
}  // namespace orlop::protocol
