// SPDX-License-Identifier: Apache-2.0
// The plans of one backup or restore as one list of values and pages, checked, with a copy
// registered on each plan so that none ends under the device.
//
// Thread: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "client/client_core.h"
#include "client/usable_memory.h"
#include "gpu/compiled_layout.h"
#include "orlop/error.h"
#include "orlop/gpu.h"

namespace orlop::client {

struct PageBatch {
  struct Put {
    std::shared_ptr<detail::PutPlanState> plan;
    std::uint64_t copy = 0;
    std::size_t first = 0;  // of its values in the batch; one a prepared key
  };
  struct Read {
    // Cannot go while its copy is registered. Null: nothing of it is copied.
    detail::ReadState* plan = nullptr;
    std::size_t rank = 0;
    std::uint64_t copy = 0;
    std::uint32_t pages = 0;
    std::size_t first = 0;
  };

  std::vector<Put> puts;
  std::vector<Read> reads;
  std::vector<std::byte*> values;
  std::vector<std::vector<std::int64_t>> pages;         // one list a pool
  std::vector<std::shared_ptr<UsableMemory>> memories;  // that the values lie in

  // core: that the plans must belong to. Errors name items[i]. Nothing is registered yet.
  static Result<PageBatch> of(const detail::ClientCore& core, const gpu::CompiledLayout& layout,
                              std::span<const BackupItem> items);
  static Result<PageBatch> of(const detail::ClientCore& core, const gpu::CompiledLayout& layout,
                              std::span<const RestoreItem> items);

  // Through RegisteredCopies: an error or an exception leaves some of them.
  Result<void> register_copies(detail::ClientCore& core);
  void take_off_copies(detail::ClientCore& core);  // they never began
  // Segments that the values lie in; usually one.
  std::vector<std::shared_ptr<Attachment>> attachments() const;
};

// The copies of a batch while its call may still fail, by an error or an exception: at the end of
// the scope those that nobody has taken over (by moving the batch away) are taken off.
class RegisteredCopies {
 public:
  RegisteredCopies(PageBatch& batch, detail::ClientCore& core) : batch_(batch), core_(core) {}
  ~RegisteredCopies() { batch_.take_off_copies(core_); }
  RegisteredCopies(const RegisteredCopies&) = delete;
  RegisteredCopies& operator=(const RegisteredCopies&) = delete;
  Result<void> add_all() { return batch_.register_copies(core_); }

 private:
  PageBatch& batch_;
  detail::ClientCore& core_;
};

}  // namespace orlop::client
