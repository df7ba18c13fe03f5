// SPDX-License-Identifier: Apache-2.0
// Single-producer single-consumer ring of RingMessages. Positions are free-running u32 counters in
// the channel header; each side keeps a private copy of its own counter and never trusts the
// other's beyond "how far": a counter that claims more than kRingCells outstanding is malformed.
//
// Producer and consumer each belong to one thread at a time (the client's mutex; the node's
// thread).
#pragma once

#include <cstdint>

#include "base/planted.h"
#include "segment/channel.h"

namespace orlop::segment {

class RingProducer {
 public:
  RingProducer() = default;
  RingProducer(RingMessage* cells, Atomic<std::uint32_t>* tail, Atomic<std::uint32_t>* head)
      : cells_(cells), tail_(tail), head_(head), next_(tail->load(std::memory_order_relaxed)) {}

  // Cells that may be written now (0..kRingCells). A hostile head reads as "full".
  std::uint32_t room() const {
    std::uint32_t used = next_ - head_->load(std::memory_order_acquire);
    return used > kRingCells ? 0 : kRingCells - used;
  }
  // False if full. Publishes with release: partner of RingConsumer::pop's acquire.
  bool push(const RingMessage& message) {
    if (room() == 0) return false;
    if (PLANTED(kRingTailBeforeMessage)) tail_->store(next_ + 1, std::memory_order_release);
    cells_[next_ % kRingCells] = message;
    tail_->store(++next_, std::memory_order_release);
    return true;
  }
  void reset() {  // both counters to 0; only while the other side stands still
    next_ = 0;
    tail_->store(0, std::memory_order_relaxed);
  }

 private:
  RingMessage* cells_ = nullptr;
  Atomic<std::uint32_t>* tail_ = nullptr;
  Atomic<std::uint32_t>* head_ = nullptr;
  std::uint32_t next_ = 0;
};

class RingConsumer {
 public:
  enum class Pop { kEmpty, kMessage, kMalformed };

  RingConsumer() = default;
  RingConsumer(RingMessage* cells, Atomic<std::uint32_t>* tail, Atomic<std::uint32_t>* head)
      : cells_(cells), tail_(tail), head_(head), next_(head->load(std::memory_order_relaxed)) {}

  bool empty() const { return tail_->load(std::memory_order_acquire) == next_; }
  // Copies the message out, then frees the cell.
  Pop pop(RingMessage* out) {
    std::uint32_t ready = tail_->load(std::memory_order_acquire) - next_;
    if (ready == 0) return Pop::kEmpty;
    if (ready > kRingCells) return Pop::kMalformed;
    if (PLANTED(kRingCellFreedBeforeCopy)) head_->store(next_ + 1, std::memory_order_release);
    *out = cells_[next_ % kRingCells];
    head_->store(++next_, std::memory_order_release);
    return Pop::kMessage;
  }
  // The producer reset its counters (client's ring reset): start again at 0.
  void reset() {
    next_ = 0;
    head_->store(0, std::memory_order_relaxed);
  }

 private:
  const RingMessage* cells_ = nullptr;
  Atomic<std::uint32_t>* tail_ = nullptr;
  Atomic<std::uint32_t>* head_ = nullptr;
  std::uint32_t next_ = 0;
};

}  // namespace orlop::segment
