// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/optional.h>

#include "future.h"
#include "page_cache.h"
#include "seconds.h"

namespace orlop::python {

namespace {

// The answer of a job, waited for in slices; TimeoutError.
template <class Answer, class Job>
Answer answer_of(const JobBox<Job>& self, std::optional<double> timeout) {
  Job& job = self.usable();
  Result<std::optional<Answer>> answer;
  // An error ends the wait, too.
  const auto ended = wait_in_slices(timeout, [&](Milliseconds time) -> std::optional<bool> {
    answer = job.wait(time);
    if (answer && !*answer) return std::nullopt;
    return true;
  });
  if (ended) return std::move(*value_or_raise(std::move(answer)));
  PyErr_SetString(PyExc_TimeoutError, "the copy was not over in time; ask again");
  throw nb::python_error();
}

void bind_backup(nb::module_& module) {
  nb::class_<BackupBox>(
      module, "Backup",
      "A backup under way: PageCache.backup. `await backup` and backup.result() give one list of\n"
      "Outcome per plan. May be dropped, the backup goes on and commits by itself.")
      .def(
          "ready", [](const BackupBox& self) { return self.usable().done(); },
          "True when result() would not wait. Never blocks.")
      .def("__await__", &awaited,
           nb::sig("def __await__(self) -> Generator[Any, None, list[list[Outcome]]]"),
           "The outcomes, without blocking the event loop.")
      .def(
          "result",
          [](const BackupBox& self, std::optional<double> timeout) {
            nb::list all;
            for (const auto& item : answer_of<std::vector<std::vector<Outcome>>>(self, timeout))
              all.append(outcome_list(item));
            return all;
          },
          nb::arg("timeout") = nb::none(),
          nb::sig("def result(self, timeout: float | None = None) -> list[list[Outcome]]"),
          "Waits for the outcomes, one list per plan. timeout: seconds, None: for ever; then "
          "raises\n"
          "TimeoutError and may be asked again. Closed after a cancel. The GIL is released.")
      .def(
          "stream_wait",
          [](const BackupBox& self, std::uintptr_t stream) {
            Backup& job = self.usable();
            Result<void> waited;
            {
              const GilRelease others;
              waited = job.stream_wait(reinterpret_cast<void*>(stream));
            }
            value_or_raise(std::move(waited));
          },
          nb::arg("stream"),
          "What is submitted to the CUDA stream afterwards waits until the pages have been read.\n"
          "On the CPU: waits.")
      .def(
          "cancel", [](const BackupBox& self) { self.usable().cancel(); },
          "Copies nothing more; the plans are aborted when what was begun is over.");
}

void bind_restore(nb::module_& module) {
  nb::class_<RestoreBox>(
      module, "Restore",
      "A restore under way: PageCache.restore. `await restore` and restore.result() give, per "
      "plan,\n"
      "the number of pages before the first whose checksum was wrong; what lies after it must not "
      "be\nused. May be dropped, the restore goes on.")
      .def(
          "ready", [](const RestoreBox& self) { return self.usable().done(); },
          "True when result() would not wait. Never blocks.")
      .def("__await__", &awaited, nb::sig("def __await__(self) -> Generator[Any, None, list[int]]"),
           "The valid lengths, without blocking the event loop.")
      .def(
          "result",
          [](const RestoreBox& self, std::optional<double> timeout) {
            nb::list all;
            for (const std::uint32_t valid : answer_of<std::vector<std::uint32_t>>(self, timeout))
              all.append(valid);
            return all;
          },
          nb::arg("timeout") = nb::none(),
          nb::sig("def result(self, timeout: float | None = None) -> list[int]"),
          "Waits until all is copied and checked; valid pages per plan. timeout as of Backup.")
      .def_prop_ro(
          "ranges", [](const RestoreBox& self) { return self.usable().ranges(); },
          "Number of layer ranges, at least 1.")
      .def(
          "range_ready",
          [](const RestoreBox& self, std::size_t range) { return self.usable().range_done(range); },
          nb::arg("range"), "True when the range has arrived (checked only at the end).")
      .def(
          "stream_wait",
          [](const RestoreBox& self, std::size_t range, std::uintptr_t stream) {
            Restore& job = self.usable();
            Result<void> waited;
            {
              const GilRelease others;
              waited = job.stream_wait(range, reinterpret_cast<void*>(stream));
            }
            value_or_raise(std::move(waited));
          },
          nb::arg("range"), nb::arg("stream"),
          "What is submitted to the CUDA stream afterwards waits for the range. On the CPU: waits.")
      .def(
          "cancel", [](const RestoreBox& self) { self.usable().cancel(); }, "Copies nothing more.");
}

}  // namespace

void bind_page_jobs(nb::module_& module) {
  bind_backup(module);
  bind_restore(module);
}

}  // namespace orlop::python
