// SPDX-License-Identifier: Apache-2.0
// PageCache, Backup and Restore in Python's hands. Every call: with the GIL, given up where it may
// wait.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "client_box.h"
#include "gil.h"
#include "orlop/gpu.h"

namespace orlop::python {

// Keeps the client's box: what Python lets go of in any order is destroyed in this one.
template <class Object>
struct JobBox {
  std::shared_ptr<ClientBox> box;
  std::unique_ptr<Object> object;

  Object& usable() const {
    box->check_process();
    return *object;
  }
};
using BackupBox = JobBox<Backup>;
using RestoreBox = JobBox<Restore>;

class PageCacheBox {
 public:
  // progress: called by the cache as long as it lives; memory: what jobs read and write.
  PageCacheBox(std::shared_ptr<ClientBox> box, PageCache cache, nb::object progress,
               nb::object memory)
      : box_(std::move(box)),
        progress_(std::move(progress)),
        memory_(std::move(memory)),
        cache_(std::make_unique<PageCache>(std::move(cache))) {}
  PageCacheBox(PageCacheBox&&) noexcept = default;
  PageCacheBox& operator=(PageCacheBox&&) = delete;
  // Waits for the jobs, which others may need the GIL for.
  ~PageCacheBox() {
    if (cache_ == nullptr) return;
    const GilRelease others;
    cache_ = nullptr;
  }
  const std::shared_ptr<ClientBox>& box() const { return box_; }
  PageCache& usable() const {
    box_->check_process();
    return *cache_;
  }

 private:
  std::shared_ptr<ClientBox> box_;
  nb::object progress_, memory_;
  std::unique_ptr<PageCache> cache_;
};

void bind_page_cache(nb::module_& module);
void bind_page_jobs(nb::module_& module);

}  // namespace orlop::python
