// SPDX-License-Identifier: Apache-2.0
// The copy engine of one client: queued copies that make progress a piece at a time, also after the
// client's death while a forked child keeps the device's files open.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/rng.h"
#include "value_bytes.h"

namespace orlop::simulation {

struct Copy {
  bool writes = false;          // into a Prepared slot; else reads a pinned one
  PutId put{};                  // of a write
  std::uint64_t read_plan = 0;  // of a read
  SlotId slot{};
  Generation generation{};
  ValueIdentity identity{};
  std::span<std::byte> value{};
  std::size_t done = 0;  // bytes
  bool failed = false;
  bool wrong = false;  // a read saw other bytes than the identity's
};

class Device {
 public:
  void queue(Copy copy) { copies_.push_back(std::move(copy)); }
  // One piece of one copy.
  void step(Rng& rng, std::uint32_t fail_per_mille);
  // Finished copies, once.
  std::vector<Copy> take_finished();
  const std::list<Copy>& queued() const { return copies_; }
  const std::vector<Copy>& finished() const { return finished_; }
  void drop_all();  // the last process that had the device open is gone

 private:
  std::list<Copy> copies_;
  std::vector<Copy> finished_;
};

}  // namespace orlop::simulation
