// SPDX-License-Identifier: Apache-2.0
// How a server gets everything from its keeper: memory, listening sockets, and every client's
// channel. All or nothing: if one channel is missing or cannot be mapped, the start fails and the
// keeper tries again; going on without it would free memory that its client still reads.
#pragma once

#include <vector>

#include "orlop/error.h"
#include "platform/unix_socket.h"
#include "protocol/attach/frames.h"
#include "runtime/channel_files.h"
#include "runtime/message_queue.h"
#include "runtime/segment_files.h"

namespace orlop::runtime {

struct HandedOverChannel {
  protocol::HandOverFrame frame;
  segment::ChannelGeometry geometry;
  ChannelFiles files;
};

struct ServerStart {
  protocol::HelloFrame hello;
  SegmentMap segment;
  UnixListener listener;
  FileDescriptor admin_socket;  // may be none
  std::vector<HandedOverChannel> channels;
  MessageQueue keeper;
};

// Reads kHello, the channels and the end mark from the keeper's socket. deadline: CLOCK_MONOTONIC.
// Errors: kCorrupt (the segment itself: only a cold start on new memory helps), everything else:
// try again (kDeadline, kClosed, kInvalidArgument, kSystem, kNoMemory).
Result<ServerStart> receive_start(FileDescriptor keeper_socket, MonoNs deadline);

}  // namespace orlop::runtime
