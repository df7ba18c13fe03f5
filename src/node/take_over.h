// SPDX-License-Identifier: Apache-2.0
// A new keeper's first question: is there a node in the service manager's store that can go on?
//
// All or nothing (protocol/attach/keeper_ledger.h). Checked, in this order: the ledger (checksum,
// ABI), that it and the names of the descriptors agree, that the configured memory is the one that
// is there, that both areas are those (inode) and every channel can be mapped and are what their
// names say, that the control area is of this segment; and last that the server before is dead: it
// is killed and waited for.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "node/options.h"
#include "orlop/error.h"
#include "platform/mapping.h"
#include "platform/service_manager.h"
#include "protocol/attach/keeper_ledger.h"
#include "runtime/segment_files.h"

namespace orlop::node {

// SIGKILL is not refused, but a process in an uninterruptible call takes its time.
inline constexpr MonoNs kKillLimit = 60 * kNsPerSecond;

using KeptDescriptors = std::array<FileDescriptor, protocol::kStoredPerClient>;

struct TakenOver {
  runtime::SegmentFiles segment;
  protocol::LedgerFrame ledger;
  protocol::Adoption adoption;
  MemoryFile ledger_file;
  Mapping ledger_memory;
  std::map<ClientId, KeptDescriptors> channels;
};

// What the ledger says about an area. 0: no descriptor.
std::uint64_t inode_of(int fd);
// The settings that decide how memory is made, apart from its sizes.
std::string making_of(const NodeOptions& options);

// stored: consumed. Settings of making_of() that differ are only told (setting_not_taken_up).
// Errors: kNoNode (nothing of ours is there); all others mean a cold start and say why; the ledger,
// if there was one, is void then.
Result<TakenOver> take_over(std::vector<StoredDescriptor> stored, const NodeOptions& options);

}  // namespace orlop::node
