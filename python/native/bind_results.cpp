// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/string.h>

#include <string>

#include "client.h"

namespace orlop::python {

namespace {

void bind_namespace(nb::module_& module) {
  nb::class_<NamespaceBox>(module, "Namespace",
                           "An open namespace: Client.open_namespace. Belongs to its Client.")
      .def_prop_ro(
          "value_len", [](const NamespaceBox& self) { return self.value_len; },
          "Bytes of one value.")
      .def_prop_ro(
          "resolved",
          [](const NamespaceBox& self) {
            self.box->check_process();
            return self.ns.resolved();
          },
          "True once the node knows it.")
      .def_prop_ro(
          "descriptor",
          [](const NamespaceBox& self) {
            const auto text = value_or_raise(canonical_text(self.ns.descriptor()));
            return nb::object(imported("orlop.descriptor").attr("from_json")(text));
          },
          nb::sig("def descriptor(self) -> NamespaceDescriptor"),
          "The NamespaceDescriptor it was opened with, all fields filled in.");
}

void bind_get_result(nb::module_& module) {
  nb::class_<GetResult>(module, "GetResult", "What get_start found and pinned. Lengths in keys.")
      .def_ro("raw_prefix_hit_len", &GetResult::raw_prefix_hit_len,
              "Keys pinned as a prefix before rounding down to whole groups.")
      .def_ro("transferable_len", &GetResult::transferable_len, "Rounded down to whole groups.")
      .def_ro("prefix_hit_groups", &GetResult::prefix_hit_groups, "Whole groups of the prefix.")
      .def_ro("first_miss_index", &GetResult::first_miss_index,
              "Index of the first missing key; the number of keys if all hit.")
      .def_ro("first_miss_group_index", &GetResult::first_miss_group_index,
              "Index of the first group that is not whole.")
      .def_ro("all_hit", &GetResult::all_hit, "True: nothing is missing.")
      .def_prop_ro(
          "reason", [](const GetResult& self) { return nb::steal(to_python(self.reason)); },
          nb::sig("def reason(self) -> MissReason"), "Why the first missing key is missing.");
}

void bind_exists_result(nb::module_& module) {
  nb::class_<ExistsResult>(module, "ExistsResult", "Which of the keys asked for are readable.")
      .def_ro("prefix_len", &ExistsResult::prefix_len,
              "Readable keys before the first missing one.")
      .def(
          "__len__", [](const ExistsResult& self) { return self.present.size(); },
          "Number of keys asked for.")
      .def(
          "__getitem__",
          [](const ExistsResult& self, Py_ssize_t i) {
            const auto size = static_cast<Py_ssize_t>(self.present.size());
            if (i < -size || i >= size) throw nb::index_error("ExistsResult: index out of range");
            return bool{self.present[static_cast<std::size_t>(i < 0 ? i + size : i)]};
          },
          nb::arg("i"), "True when key i is readable.")
      .def_prop_ro(
          "mask",
          [](const ExistsResult& self) {
            const std::string bytes(self.present.begin(), self.present.end());
            return nb::bytes(bytes.data(), bytes.size());
          },
          "One byte per key, 1 or 0: for numpy.frombuffer(mask, dtype=bool).")
      .def_prop_ro(
          "present",
          [](const ExistsResult& self) {
            nb::list list;
            for (const bool here : self.present) list.append(here);
            return list;
          },
          nb::sig("def present(self) -> list[bool]"), "One bool per key; made at every access.");
}

// {member: count}, only those that are not 0.
template <class Enum, std::size_t kCount>
nb::dict counts(const std::uint64_t (&values)[kCount]) {
  nb::dict result;
  for (std::size_t i = 0; i < kCount; ++i)
    if (values[i] != 0) result[nb::steal(to_python(static_cast<Enum>(i)))] = values[i];
  return result;
}

void bind_stats(nb::module_& module) {
  nb::class_<ClientStats>(module, "Stats",
                          "Counters of one Client since it was opened, and gauges of now.")
      .def_ro("gets", &ClientStats::gets, "Reads begun.")
      .def_ro("keys_asked", &ClientStats::keys_asked, "Keys of those reads.")
      .def_ro("keys_hit", &ClientStats::keys_hit, "Keys pinned by them.")
      .def_ro("bytes_read", &ClientStats::bytes_read, "Bytes of values transferred.")
      .def_ro("puts", &ClientStats::puts, "Puts begun.")
      .def_ro("keys_put", &ClientStats::keys_put, "Keys of those puts.")
      .def_ro("keys_stored", &ClientStats::keys_stored, "Keys stored by them.")
      .def_ro("bytes_written", &ClientStats::bytes_written, "Bytes of values stored.")
      .def_ro("mismatches", &ClientStats::mismatches, "Values that did not match their checksum.")
      .def_ro("attaches", &ClientStats::attaches, "Times attached to a node's memory.")
      .def_ro("resumes", &ClientStats::resumes, "Times a restarted server was found again.")
      .def_ro("aborted_late", &ClientStats::aborted_late,
              "Puts whose answer came after nobody waited any more.")
      .def_ro("open_read_plans", &ClientStats::open_read_plans, "Gauge.")
      .def_ro("open_put_plans", &ClientStats::open_put_plans, "Gauge.")
      .def_ro("open_handles", &ClientStats::open_handles, "Gauge.")
      .def_ro("pinned_bytes", &ClientStats::pinned_bytes, "Gauge: bytes pinned by plans.")
      .def_ro("pin_cap_bytes", &ClientStats::pin_cap_bytes, "Gauge: bytes that may be pinned.")
      .def_prop_ro(
          "misses", [](const ClientStats& self) { return counts<MissReason>(self.misses); },
          nb::sig("def misses(self) -> dict[MissReason, int]"),
          "Reads by the reason of their first miss; NONE: all hit. Reasons that never came are "
          "left "
          "out.")
      .def_prop_ro(
          "outcomes", [](const ClientStats& self) { return counts<Outcome>(self.outcomes); },
          nb::sig("def outcomes(self) -> dict[Outcome, int]"),
          "Keys of puts by outcome. Outcomes that never came are left out.");
}

}  // namespace

void bind_results(nb::module_& module) {
  bind_namespace(module);
  bind_get_result(module);
  bind_exists_result(module);
  bind_stats(module);
}

}  // namespace orlop::python
