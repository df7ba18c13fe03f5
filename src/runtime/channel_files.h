// SPDX-License-Identifier: Apache-2.0
// What belongs to one client's channel on the node's side: memory, doorbells, and the two
// descriptors that prove its death. Created by a server, kept by the keeper across servers.
// Thread: none; one owner.
#pragma once

#include <array>
#include <vector>

#include "orlop/error.h"
#include "platform/event_fd.h"
#include "platform/file_descriptor.h"
#include "platform/mapping.h"
#include "platform/memory_file.h"
#include "platform/process.h"
#include "segment/channel.h"

namespace orlop::runtime {

// Order of the descriptors in kHold and kHandOver.
enum class ChannelFd { kMemory, kNodeDoorbell, kClientDoorbell, kProcess, kForkPipe };
inline constexpr std::size_t kChannelFds = 5;

struct ChannelFiles {
  MemoryFile memory;
  EventFd node_doorbell;    // the client rings, the node sleeps on it
  EventFd client_doorbell;  // the node rings
  PidFd process;
  FileDescriptor fork_pipe;  // read end
  Mapping mapping;

  // In the order of ChannelFd; valid while this object lives.
  std::array<int, kChannelFds> descriptors() const;
};

// New memory and doorbells for a client whose process and fork pipe are known; mapped, not yet
// formatted. Errors: kInvalidArgument (sizes, named), kSystem, kNoMemory.
Result<ChannelFiles> create_channel(const segment::ChannelGeometry& geometry, PidFd process,
                                    FileDescriptor fork_pipe);
// Takes what a keeper handed over (kChannelFds descriptors), mapped. Errors: kCorrupt, kSystem.
Result<ChannelFiles> adopt_channel(std::vector<FileDescriptor> descriptors,
                                   const segment::ChannelGeometry& geometry);

}  // namespace orlop::runtime
