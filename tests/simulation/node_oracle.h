// SPDX-License-Identifier: Apache-2.0
// Holds what the node says of itself against the slot table, counted independently. Whenever no
// server is between two stores of a step. O(slots).
#pragma once

namespace orlop::simulation {

class World;

// Nothing if no server serves now.
void check_node(World& world);

}  // namespace orlop::simulation
