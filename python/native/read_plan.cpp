// SPDX-License-Identifier: Apache-2.0
#include "read_plan.h"

#include <string>
#include <utility>

#include "gil.h"

namespace orlop::python {

const char* ReadPlanBox::over() const {
  return "plan: was released or moved from; get the pages again";
}

void ReadPlanBox::end_now() {
  static_cast<void>(box().client.release_views(plan_));
}

std::size_t ReadPlanBox::size() const {
  const auto mine = open_turn();
  return plan_.size();
}
std::size_t ReadPlanBox::ranks() const {
  const auto mine = open_turn();
  return plan_.ranks();
}
std::size_t ReadPlanBox::valid_len() const {
  const auto mine = open_turn();
  return plan_.valid_len();
}

ReadPlanBox::Place ReadPlanBox::checked(Py_ssize_t i, Py_ssize_t rank) const {
  const std::size_t pages = size();
  if (i < 0 || static_cast<std::size_t>(i) >= pages) {
    raise(ErrorCode::kInvalidArgument,
          "i: is " + std::to_string(i) + ", the plan has " + std::to_string(pages) + " keys");
  }
  if (rank < 0 || static_cast<std::size_t>(rank) >= plan_.ranks()) {
    raise(ErrorCode::kInvalidArgument,
          "rank: is " + std::to_string(rank) + ", the plan has " + std::to_string(plan_.ranks()));
  }
  return {static_cast<std::size_t>(i), static_cast<std::size_t>(rank)};
}

// The first look at a page computes its checksum.
std::span<std::byte> ReadPlanBox::checked_bytes(Place place) {
  std::span<const std::byte> bytes;
  if (plan_.view_unverified(place.page, place.rank).size() < kCopyWithoutGil) {
    bytes = plan_.view(place.page, place.rank);
  } else {
    const GilRelease others;
    bytes = plan_.view(place.page, place.rank);
  }
  // The client gives nothing while it closes, and what it gives nothing of is not a mismatch.
  if (bytes.empty() && box().closed) raise_closed();
  // Shown as read-only.
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

nb::object ReadPlanBox::view(Py_ssize_t i, Py_ssize_t rank) {
  const auto mine = open_turn();
  const Place place = checked(i, rank);
  const std::span<std::byte> bytes = checked_bytes(place);
  if (bytes.empty()) return nb::none();
  return nb::steal(
      PlanMemory::view(bytes, place.page * plan_.ranks() + place.rank, Shown::kReadOnlyBytes));
}

nb::object ReadPlanBox::array(Py_ssize_t i, nb::handle dtype, nb::handle shape, Py_ssize_t rank) {
  const auto mine = open_turn();
  const Place place = checked(i, rank);
  const std::span<std::byte> bytes = checked_bytes(place);
  if (bytes.empty()) return nb::none();
  return array_over(
      nb::steal(pinned_view(bytes, place.page * plan_.ranks() + place.rank, Shown::kReadOnlyBytes)),
      dtype, shape);
}

bool ReadPlanBox::copy_out(Py_ssize_t i, PyObject* destination, Py_ssize_t rank) {
  const auto mine = open_turn();
  const Place place = checked(i, rank);
  const HeldBuffer held(destination, Use::kWrite, "destination");
  Result<bool> matched;
  if (held.bytes().size() < kCopyWithoutGil) {
    matched = plan_.copy_out(place.page, held.bytes(), place.rank);
  } else {
    const GilRelease others;
    matched = plan_.copy_out(place.page, held.bytes(), place.rank);
  }
  return value_or_raise(std::move(matched));
}

std::size_t ReadPlanBox::copy_out_all(PyObject* destinations, Py_ssize_t rank) {
  const auto mine = open_turn();
  const std::size_t pages = size();
  if (pages == 0) return 0;
  const Place first = checked(0, rank);
  const auto value_len = static_cast<std::uint32_t>(plan_.view_unverified(0, first.rank).size());
  const BufferList list(destinations, Use::kWrite, pages, value_len);
  const auto buffers = list.writable();
  if (buffers.size() < pages) {
    raise(ErrorCode::kInvalidArgument, "buffers: has " + std::to_string(buffers.size()) +
                                           " entries for " + std::to_string(pages) +
                                           " pages; give one per page");
  }
  std::size_t copied = 0;
  Result<bool> matched = true;
  {
    const GilRelease others;
    for (; copied < pages; ++copied) {
      matched = plan_.copy_out(copied, buffers[copied], first.rank);
      if (!matched || !*matched) break;
    }
  }
  static_cast<void>(value_or_raise(std::move(matched)));
  return copied;
}

std::uint64_t ReadPlanBox::expected_checksum(Py_ssize_t i, Py_ssize_t rank) const {
  const auto mine = open_turn();
  const Place place = checked(i, rank);
  return plan_.expected_checksum(place.page, place.rank);
}

nb::object ReadPlanBox::blob() {
  const auto mine = open_turn();
  const auto words = value_or_raise(plan_.blob());
  auto* const start = reinterpret_cast<std::byte*>(const_cast<std::uint64_t*>(words.data()));
  return nb::steal(PlanMemory::view({start, words.size_bytes()}, plan_.size() * plan_.ranks(),
                                    Shown::kReadOnlyWords));
}

void ReadPlanBox::release(bool report_views) {
  const auto mine = turn();
  if (ended_ && !has_pages()) return;
  if (end_or_wait() || !report_views) return;
  raise_buffer("plan: " + pages_in_words() +
               " of its memory still in use; it stays pinned until they are gone");
}

}  // namespace orlop::python
