// SPDX-License-Identifier: Apache-2.0
// One attachment: the memory of one segment as this process maps it, and our channel to its node.
// Kept by every plan that lives in it; unmapped when the last one is gone. A new keeper means a new
// Attachment beside the old one.
//
// Thread: what is marked [mutex] belongs to the core's mutex; the rest never changes or is atomic.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "client/value_pages.h"
#include "orlop/error.h"
#include "platform/epoll_loop.h"
#include "platform/event_fd.h"
#include "platform/file_descriptor.h"
#include "platform/mapping.h"
#include "platform/unix_socket.h"
#include "protocol/attach/frames.h"
#include "protocol/session/session.h"
#include "segment/channel.h"
#include "segment/control_area.h"
#include "segment/ledger.h"
#include "segment/plan_blob.h"

namespace orlop::client {

struct Attachment {
  // Checks and maps what a kWelcome brought. Errors: kCorrupt (descriptor, seal, size, header),
  // kAbiMismatch, kNoMemory, kSystem.
  static Result<std::unique_ptr<Attachment>> map(const protocol::WelcomeFrame& welcome,
                                                 std::uint64_t nonce,
                                                 std::vector<FileDescriptor> descriptors);

  // The writable bytes of a slot; empty when such a slot does not lie inside the value area (the
  // node is trusted, but a torn or foreign number must not become an address).
  std::span<std::byte> value(SlotId slot, std::uint32_t value_len) const {
    if (!area.geometry().in_bounds(slot, value_len)) return {};
    return value_memory.span().subspan(area.geometry().value_offset(slot, value_len), value_len);
  }

  SegmentId segment;
  ClientId client;
  std::uint64_t nonce = 0;
  Mapping control_memory, value_memory, channel_memory;
  std::unique_ptr<ValuePages> value_pages;
  segment::ControlArea area;
  segment::ChannelView channel;
  EventFd node_doorbell, client_doorbell;
  FileDescriptor keeper_pipe;
  // Wakes the consumer of answers: edge-triggered on our doorbell, so that it needs no draining.
  EpollLoop answers;

  std::atomic<std::uint64_t> pinned_bytes{0};  // against header.pin_cap_bytes
  std::mutex touch_mutex;                      // the touch and missed rings have one producer

  struct Guarded {  // [mutex]
    Guarded(const segment::ControlArea& area, const segment::ChannelView& channel, ClientId client)
        : session(area, channel, client),
          pool(channel.geometry().ledger_chunks),
          orphans(channel),
          blobs(channel.geometry().plan_bytes) {}
    protocol::Session session;
    segment::ChunkPool pool;
    segment::ThreadLedger orphans;  // chunks of threads that ended with pins; ours to tidy up
    segment::RangeAllocator blobs;
  };
  std::unique_ptr<Guarded> guarded;
};

}  // namespace orlop::client
