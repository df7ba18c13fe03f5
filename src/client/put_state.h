// SPDX-License-Identifier: Apache-2.0
// What a PutPlan and a Future stand for.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "client/attachment.h"
#include "client/copy_gate.h"
#include "orlop/outcome.h"
#include "protocol/messages.h"

namespace orlop::detail {

class ClientCore;

// Thread: `over`, `blob_*` and the list links belong to the core's mutex (over may be read
// without); the rest belongs to the thread that holds the plan.
struct PutPlanState {
  enum class Over : std::uint8_t { kNo, kEnded, kClosed };

  std::shared_ptr<ClientCore> core;
  std::shared_ptr<client::Attachment> attachment;  // null: no node answered, nothing is prepared
  PutId put;
  std::uint32_t value_len = 0;
  std::uint64_t digest = 0;  // low half of the namespace's
  std::vector<KeyId> keys;
  std::vector<protocol::SlotGrant> grants;
  std::vector<Outcome> outcomes;
  std::vector<std::uint64_t> checksums;
  std::vector<bool> summed;  // checksums[i] is known
  std::string explanation;
  std::uint32_t prepared = 0;
  std::atomic<Over> over{Over::kNo};
  client::CopyGate gate;  // of copy_in and the checksums of commit
  std::uint64_t blob_offset = 0;
  std::uint64_t blob_bytes = 0;
  bool linked = false;
  PutPlanState* previous = nullptr;  // the core's list of open plans that hold memory
  PutPlanState* next = nullptr;
};

// Thread: outcomes belong to the core's mutex until `done`, and never change after it.
struct FutureState {
  std::shared_ptr<ClientCore> core;
  std::vector<Outcome> outcomes;  // kPrepared: waits for the commit's answer
  std::uint64_t value_len = 0;
  std::atomic<bool> done{false};
};

}  // namespace orlop::detail
