// SPDX-License-Identifier: Apache-2.0
// What put plans and read plans have in common: registered copies and blobs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "c_api/guard.h"
#include "c_api/handles.h"

namespace orlop::c_api {

template <class PlanHandle>
orlop_status register_copy(PlanHandle* plan, std::uint64_t* copy) noexcept {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("plan", plan); !checked) return checked;
    if (auto checked = check_out("copy", copy); !checked) return checked;
    return give_number(plan->object->register_copy(), copy);
  });
}

template <class PlanHandle>
orlop_status copy_done(PlanHandle* plan, std::uint64_t copy, int success) noexcept {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("plan", plan); !checked) return checked;
    return plan->object->copy_done(copy, success != 0);
  });
}

template <class PlanHandle>
orlop_status give_blob(PlanHandle* plan, const std::uint64_t** words, std::size_t* count) noexcept {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("plan", plan); !checked) return checked;
    if (auto checked = check_out("words", words); !checked) return checked;
    if (auto checked = check_out("count", count); !checked) return checked;
    const auto blob = plan->object->blob();
    if (!blob) return std::unexpected(blob.error());
    *words = blob->data();
    *count = blob->size();
    return {};
  });
}

}  // namespace orlop::c_api
