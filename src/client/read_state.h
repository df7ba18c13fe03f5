// SPDX-License-Identifier: Apache-2.0
// What a GetHandle and then a ReadPlan stand for: pinned cells and where they point. One object
// from get_start to release, recycled by the thread that made it.
//
// Thread: `phase`, `life`, the list links and the pins' end belong to home->mutex. The rest belongs
// to the thread that holds the handle or plan.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "client/attachment.h"
#include "client/buffer.h"
#include "client/copy_gate.h"
#include "copy/checksum.h"
#include "protocol/session/plan_life.h"
#include "segment/pin.h"

namespace orlop::client {
struct ThreadState;
}

namespace orlop::detail {

class ClientCore;

struct ReadState {
  enum class Phase : std::uint8_t {
    kHandle,   // pinned, the user has a GetHandle
    kPlan,     // the user has a ReadPlan
    kExpired,  // TTL: pins gone, the user still has the GetHandle
    kClosed,   // close() ended it under the user
    kDropped,  // the user let go; copies are still registered
  };
  struct Rank {
    std::uint64_t digest = 0;  // low half of the namespace's
    NamespaceIndex ns;
    std::uint32_t value_len = 0;
    std::uint32_t pinned = 0;  // cells written
    std::vector<std::uint32_t> cells;
    client::Buffer<segment::PinnedSlot> pins;
  };

  // What the bytes of a page claim to be.
  ChecksumIdentity identity(std::size_t page, std::size_t rank) const {
    return {.key = keys[page], .namespace_digest = ranks[rank].digest};
  }

  std::shared_ptr<ClientCore> core;
  std::shared_ptr<client::Attachment> attachment;  // null: nothing pinned
  client::ThreadState* home = nullptr;
  ReadState* previous = nullptr;  // list of home
  ReadState* next = nullptr;
  MonoNs expires = 0;  // 0: not stamped yet by the housekeeping thread
  MonoNs seen = 0;     // when that thread first saw it, 0: not yet

  std::atomic<Phase> phase{Phase::kHandle};
  client::CopyGate gate;  // of view and copy_out
  protocol::PlanLife life;

  std::uint32_t pages = 0;  // pinned in every rank
  std::uint32_t rank_count = 1;
  client::Buffer<KeyId> keys;
  std::vector<Rank> ranks;                // at least rank_count; spare ones keep their buffers
  std::vector<std::uint32_t> group_lens;  // the reader's; empty: one key per group
  std::uint64_t pinned_bytes = 0;         // in the pin budget
  bool transferred = false;
  bool pinned = false;  // cells are written

  // Pages before the first mismatch. Only ever lowered, also by the thread that ends a restore.
  std::atomic<std::uint32_t> valid{0};
  std::vector<std::uint64_t> verified;  // one bit a page and rank: checked by view()
  std::uint64_t blob_offset = 0;
  std::uint64_t blob_bytes = 0;  // 0: no blob made
};

}  // namespace orlop::detail
