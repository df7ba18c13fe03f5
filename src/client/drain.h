// SPDX-License-Identifier: Apache-2.0
// Begins and ends the draining of a node. Not part of the library's interface: for `orlop drain`,
// over the client's rings, so that whoever may attach may do it and nobody else.
#pragma once

#include <cstdint>

#include "orlop/client.h"
#include "protocol/messages.h"

namespace orlop::detail {

struct DrainState {
  bool draining = false;
  std::uint64_t open_puts = 0;   // of all clients; puts that wait for memory count
  std::uint64_t held_pages = 0;  // by read plans of all living clients, some 10 ms ago at most
};

// One round trip. Errors: as of Client::ping().
Result<DrainState> drain_node(const Client& client, protocol::DrainMode mode);

}  // namespace orlop::detail
