// SPDX-License-Identifier: Apache-2.0
// GetHandle and ReadPlan in Python's hands. Every call: with the GIL; one call at a time works on a
// plan.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "buffers.h"
#include "plan_memory.h"

namespace orlop::python {

struct HandleBox {
  std::shared_ptr<ClientBox> box;
  GetHandle handle;
};

class ReadPlanBox final : public PlanMemory {
 public:
  ReadPlanBox(std::shared_ptr<ClientBox> box, ReadPlan plan, const GetResult& result)
      : PlanMemory(std::move(box)), plan_(std::move(plan)), result_(result) {}

  const GetResult& result() const { return result_; }
  std::size_t size() const;
  std::size_t ranks() const;
  std::size_t valid_len() const;
  // None: the bytes do not match their checksum.
  nb::object view(Py_ssize_t i, Py_ssize_t rank);
  nb::object array(Py_ssize_t i, nb::handle dtype, nb::handle shape, Py_ssize_t rank);
  bool copy_out(Py_ssize_t i, PyObject* destination, Py_ssize_t rank);
  std::size_t copy_out_all(PyObject* destinations, Py_ssize_t rank);
  std::uint64_t expected_checksum(Py_ssize_t i, Py_ssize_t rank) const;
  nb::object blob();
  ReadPlan& plan() { return plan_; }  // in a turn of the caller's
  // Idempotent. Put off while arrays over its memory live; report_views: BufferError says so.
  void release(bool report_views);

 protected:
  Result<std::uint64_t> register_copy() override { return plan_.register_copy(); }
  void end_now() override;
  const char* over() const override;

 private:
  struct Place {
    std::size_t page, rank;
  };
  Place checked(Py_ssize_t i, Py_ssize_t rank) const;
  std::span<std::byte> checked_bytes(Place place);

  ReadPlan plan_;
  GetResult result_;
};

void bind_read_plan(nb::module_& module);

}  // namespace orlop::python
