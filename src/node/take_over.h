// SPDX-License-Identifier: Apache-2.0
// A new keeper's first question: is there a node in the service manager's store that can go on?
//
// All or nothing (protocol/attach/keeper_ledger.h). Checked, in this order: the ledger (checksum,
// ABI), that it and the names of the descriptors agree, that the configured memory is the one that
// is there, that both areas and every channel can be mapped and are what their names say, that the
// control area is of this segment; and last that the server before is dead: it is killed and waited
// for.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "node/options.h"
#include "orlop/error.h"
#include "platform/mapping.h"
#include "platform/service_manager.h"
#include "protocol/attach/keeper_ledger.h"
#include "runtime/segment_files.h"

namespace orlop::node {

using KeptDescriptors = std::array<FileDescriptor, protocol::kStoredPerClient>;

struct TakenOver {
  runtime::SegmentFiles segment;
  protocol::LedgerFrame ledger;
  protocol::Adoption adoption;
  MemoryFile ledger_file;
  Mapping ledger_memory;
  std::map<ClientId, KeptDescriptors> channels;
};

// stored: consumed. Errors: kNoNode (nothing of ours is there); all others mean a cold start and
// say why; the ledger, if there was one, is void then.
Result<TakenOver> take_over(std::vector<StoredDescriptor> stored, const NodeOptions& options);

}  // namespace orlop::node
