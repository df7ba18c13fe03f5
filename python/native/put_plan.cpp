// SPDX-License-Identifier: Apache-2.0
#include "put_plan.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <utility>

#include "future.h"
#include "gil.h"

namespace orlop::python {

const char* PutPlanBox::over() const {
  return "plan: was committed, aborted or moved from; start a new put";
}

void PutPlanBox::end_now() {
  static_cast<void>(box().client.put_abort(plan_));
}

std::size_t PutPlanBox::size() const {
  const auto mine = open_turn();
  return plan_.size();
}

std::size_t PutPlanBox::checked(Py_ssize_t i) const {
  const std::size_t count = size();
  if (i >= 0 && static_cast<std::size_t>(i) < count) return static_cast<std::size_t>(i);
  raise(ErrorCode::kInvalidArgument,
        "i: is " + std::to_string(i) + ", the plan has " + std::to_string(count) + " keys");
}

std::span<std::byte> PutPlanBox::memory(Py_ssize_t i) const {
  const std::size_t page = checked(i);
  const std::span<std::byte> bytes = plan_.memory(page);
  if (!bytes.empty()) return bytes;
  raise(ErrorCode::kInvalidArgument, "i: key " + std::to_string(i) + " got no memory (" +
                                         std::string(to_string(plan_.outcome(page))) +
                                         "); copy only what is prepared");
}

void PutPlanBox::copy_in(Py_ssize_t i, PyObject* source) {
  const auto mine = open_turn();
  const std::size_t page = checked(i);
  const HeldBuffer held(source, Use::kRead, "source");
  Result<void> copied;
  if (held.bytes().size() < kCopyWithoutGil) {
    copied = plan_.copy_in(page, held.bytes());
  } else {
    const GilRelease others;
    copied = plan_.copy_in(page, held.bytes());
  }
  value_or_raise(std::move(copied));
}

std::size_t PutPlanBox::copy_in_all(PyObject* sources) {
  const auto mine = open_turn();
  const BufferList list(sources, Use::kRead, size(), value_len_);
  const auto buffers = list.readable();
  if (buffers.size() != size()) {
    raise(ErrorCode::kInvalidArgument, "buffers: has " + std::to_string(buffers.size()) +
                                           " entries for " + std::to_string(size()) +
                                           " keys; give one per key");
  }
  Result<void> copied;
  {
    const GilRelease others;
    for (std::size_t i = 0; i < buffers.size() && copied; ++i)
      if (plan_.outcome(i) == Outcome::kPrepared) copied = plan_.copy_in(i, buffers[i]);
  }
  value_or_raise(std::move(copied));
  return plan_.prepared();
}

PutPlan& PutPlanBox::plan_without_views() {
  invalidate_views();
  if (has_pages()) {
    raise_buffer("plan: cannot be committed, " + pages_in_words() +
                 " of its memory still in use; delete them first, the plan stays open");
  }
  return plan_;
}

nb::object PutPlanBox::commit() {
  const auto mine = open_turn();
  plan_without_views();
  Result<Future> future;
  {
    // Computes the checksums that nobody has computed.
    const GilRelease others;
    future = box().client.put_commit(plan_);
  }
  if (!future) raise(future.error());
  ended_ = true;
  return nb::cast(FutureBox{client(), std::move(*future)});
}

void PutPlanBox::abort(bool report_views) {
  const auto mine = turn();
  if (ended_ && !has_pages()) return;
  if (end_or_wait() || !report_views) return;
  raise_buffer("plan: " + pages_in_words() +
               " of its memory still in use; it is aborted when they are gone");
}

nb::object PutPlanBox::outcomes() const {
  const auto mine = open_turn();
  std::vector<Outcome> all(plan_.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = plan_.outcome(i);
  return outcome_list(all);
}

nb::object PutPlanBox::view(Py_ssize_t i) {
  const auto mine = open_turn();
  return nb::steal(PlanMemory::view(memory(i), static_cast<std::size_t>(i), Shown::kWritableBytes));
}

nb::object PutPlanBox::array(Py_ssize_t i, nb::handle dtype, nb::handle shape) {
  const auto mine = open_turn();
  return array_over(
      nb::steal(pinned_view(memory(i), static_cast<std::size_t>(i), Shown::kWritableBytes)), dtype,
      shape);
}

nb::object PutPlanBox::blob() {
  const auto mine = open_turn();
  const auto words = value_or_raise(plan_.blob());
  auto* const start = reinterpret_cast<std::byte*>(const_cast<std::uint64_t*>(words.data()));
  return nb::steal(
      PlanMemory::view({start, words.size_bytes()}, plan_.size(), Shown::kReadOnlyWords));
}

void PutPlanBox::set_checksum(Py_ssize_t i, std::uint64_t checksum) {
  const auto mine = open_turn();
  value_or_raise(plan_.set_checksum(checked(i), checksum));
}

std::size_t PutPlanBox::prepared() const {
  const auto mine = open_turn();
  return plan_.prepared();
}

std::string PutPlanBox::explanation() const {
  const auto mine = open_turn();
  return std::string(plan_.explanation());
}

}  // namespace orlop::python
