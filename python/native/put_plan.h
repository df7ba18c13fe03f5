// SPDX-License-Identifier: Apache-2.0
// A PutPlan in Python's hands. Every call: with the GIL; one call at a time works on the plan.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "buffers.h"
#include "plan_memory.h"

namespace orlop::python {

class PutPlanBox final : public PlanMemory {
 public:
  PutPlanBox(std::shared_ptr<ClientBox> box, PutPlan plan, std::uint32_t value_len)
      : PlanMemory(std::move(box)), plan_(std::move(plan)), value_len_(value_len) {}

  std::size_t size() const;
  std::size_t prepared() const;
  nb::object outcomes() const;  // list[Outcome]
  std::string explanation() const;
  nb::object view(Py_ssize_t i);
  nb::object array(Py_ssize_t i, nb::handle dtype, nb::handle shape);
  void copy_in(Py_ssize_t i, PyObject* source);
  std::size_t copy_in_all(PyObject* sources);
  void set_checksum(Py_ssize_t i, std::uint64_t checksum);
  nb::object blob();
  // BufferError while arrays over its memory live: the plan stays open.
  nb::object commit();
  // For a backup, which ends the plan. In a turn of the caller's that lasts until the backup was
  // begun; BufferError as of commit.
  PutPlan& plan_without_views();
  void consumed() { ended_ = true; }
  // Idempotent. Put off while arrays over its memory live; report_views: BufferError says so.
  void abort(bool report_views);

 protected:
  Result<std::uint64_t> register_copy() override { return plan_.register_copy(); }
  void end_now() override;
  const char* over() const override;

 private:
  std::size_t checked(Py_ssize_t i) const;
  std::span<std::byte> memory(Py_ssize_t i) const;

  PutPlan plan_;
  std::uint32_t value_len_;
};

void bind_put_plan(nb::module_& module);

}  // namespace orlop::python
