// SPDX-License-Identifier: Apache-2.0
#include "page_cache.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "client.h"
#include "gpu/compiled_layout.h"
#include "gpu/page_copier.h"

namespace orlop::python {

namespace {

// As orlop/gpu.py gives them.
using PoolTuple = std::tuple<std::string, std::uint32_t>;
using PartTuple = std::tuple<std::string, std::uint32_t, std::uint32_t, std::uint64_t,
                             std::uint64_t, std::uint64_t, std::uint32_t, std::uint64_t,
                             std::uint32_t, std::uint64_t, std::uint64_t>;

KvLayout layout_of(const std::vector<PoolTuple>& pools, const std::vector<PartTuple>& parts,
                   bool token_first) {
  KvLayout layout;
  layout.order = token_first ? ValueOrder::kTokenHeadChannel : ValueOrder::kHeadTokenChannel;
  layout.pools.clear();
  for (const auto& [name, pages_per_value] : pools)
    layout.pools.push_back({.name = name, .pages_per_value = pages_per_value});
  for (const auto& [name, layer, pool, base, pages, page_stride, heads, head_stride, tokens,
                    token_stride, row_bytes] : parts) {
    layout.parts.push_back({.name = name,
                            .layer = layer,
                            .pool = pool,
                            .base = base,
                            .pages = pages,
                            .page_stride = page_stride,
                            .heads = heads,
                            .head_stride = head_stride,
                            .tokens = tokens,
                            .token_stride = token_stride,
                            .row_bytes = row_bytes});
  }
  return layout;
}

CopyEngineChoice choice_of(const std::string& name) {
  if (name == "auto") return CopyEngineChoice::kAuto;
  const auto kind = gpu::engine_kind(name);
  if (!kind) {
    raise(ErrorCode::kInvalidArgument,
          "engine: is '" + name + "'; give auto, host, staged, direct or pieces");
  }
  // Kinds count from the host's 0 on, choices from kAuto.
  return static_cast<CopyEngineChoice>(static_cast<int>(*kind) + 1);
}

// Numbers of pages of one pool: a buffer that is held, or numbers that were copied.
class PageList {
 public:
  explicit PageList(nb::handle pages) {
    if (PyObject_CheckBuffer(pages.ptr()) == 0) {
      for (nb::handle number : nb::iter(pages)) {
        numbers_.push_back(PyLong_AsLongLong(number.ptr()));
        if (numbers_.back() == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
      }
      return;
    }
    if (PyObject_GetBuffer(pages.ptr(), &view_, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) != 0)
      throw nb::python_error();
    const std::string format = view_.format == nullptr ? "B" : view_.format;
    if (view_.itemsize == 8 && (format == "q" || format == "l" || format == "<q" || format == "<l"))
      return;
    PyBuffer_Release(&view_);
    raise(ErrorCode::kInvalidArgument,
          "pages: is a buffer of format '" + format + "'; give int64, or an iterable of int");
  }
  ~PageList() {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
  }
  PageList(PageList&& other) noexcept
      : view_(std::exchange(other.view_, Py_buffer{})), numbers_(std::move(other.numbers_)) {}
  PageList& operator=(PageList&&) = delete;

  std::span<const std::int64_t> get() const {
    if (view_.obj == nullptr) return numbers_;
    return {static_cast<const std::int64_t*>(view_.buf), static_cast<std::size_t>(view_.len) / 8};
  }

 private:
  Py_buffer view_{};
  std::vector<std::int64_t> numbers_;
};

// What one call works on: plans in a turn each, lists of pages held.
template <class PlanBox>
struct Items {
  struct One {
    PlanBox* plan;
    std::vector<PageList> pools;
    std::size_t rank;
  };
  std::vector<One> all;
  std::vector<PlanMemory::Turn> turns;

  // given: (plan, one list of pages a pool, rank) each.
  explicit Items(const std::vector<std::tuple<nb::object, nb::object, std::size_t>>& given) {
    for (const auto& [plan, pools, rank] : given) {
      One one{nb::cast<PlanObject<PlanBox>&>(plan).operator->(), {}, rank};
      for (nb::handle pages : nb::iter(pools)) one.pools.emplace_back(pages);
      all.push_back(std::move(one));
    }
    // In one order everywhere, so that two calls never wait for each other.
    std::vector<PlanBox*> plans;
    for (const One& one : all) plans.push_back(one.plan);
    std::ranges::sort(plans);
    for (PlanBox* plan : plans) turns.push_back(plan->open_turn());
  }
  static std::vector<std::span<const std::int64_t>> spans(const One& one) {
    std::vector<std::span<const std::int64_t>> lists;
    for (const PageList& pages : one.pools) lists.push_back(pages.get());
    return lists;
  }
};

using GivenItems = std::vector<std::tuple<nb::object, nb::object, std::size_t>>;

BackupBox back_up(const PageCacheBox& self, const GivenItems& given, std::uintptr_t stream) {
  PageCache& cache = self.usable();
  const Items<PutPlanBox> items(given);
  std::vector<BackupItem> wanted;
  for (const auto& one : items.all)
    wanted.push_back({&one.plan->plan_without_views(), items.spans(one)});
  std::optional<Result<Backup>> backup;
  {
    const GilRelease others;
    backup.emplace(cache.backup(wanted, {.stream = reinterpret_cast<void*>(stream)}));
  }
  Backup begun = value_or_raise(std::move(*backup));
  for (const auto& one : items.all) one.plan->consumed();
  return {self.box(), std::make_unique<Backup>(std::move(begun))};
}

RestoreBox restore(const PageCacheBox& self, const GivenItems& given, std::uintptr_t stream,
                   const std::vector<std::pair<std::uint32_t, std::uint32_t>>& ranges) {
  PageCache& cache = self.usable();
  const Items<ReadPlanBox> items(given);
  std::vector<RestoreItem> wanted;
  for (const auto& one : items.all)
    wanted.push_back({&one.plan->plan(), items.spans(one), one.rank});
  RestoreOptions options{.stream = reinterpret_cast<void*>(stream), .ranges = {}};
  for (const auto& [first, end] : ranges) options.ranges.push_back({first, end});
  std::optional<Result<Restore>> restore;
  {
    const GilRelease others;
    restore.emplace(cache.restore(wanted, options));
  }
  return {self.box(), std::make_unique<Restore>(value_or_raise(std::move(*restore)))};
}

PageCacheBox open(const ClientObject& client, const std::vector<PoolTuple>& pools,
                  const std::vector<PartTuple>& parts, bool token_first, std::uint32_t value_len,
                  const std::string& engine, int device, std::uint64_t staging_bytes,
                  std::uint64_t backup_burst_bytes, nb::object progress, nb::object memory) {
  Client& usable = client.usable();
  const KvLayout layout = layout_of(pools, parts, token_first);
  PageCacheOptions options;
  options.engine = choice_of(engine);
  options.device = device;
  if (staging_bytes != 0) options.staging_bytes = staging_bytes;
  options.backup_burst_bytes = backup_burst_bytes;
  PyObject* const told = progress.is_none() ? nullptr : progress.ptr();
  if (told != nullptr) {
    options.progress = [told](std::uint64_t done, std::uint64_t all) {
      const GilAcquire gil;
      if (!gil || PyErr_Occurred() != nullptr) return;
      PyObject* const answer = PyObject_CallFunction(
          told, "KK", static_cast<unsigned long long>(done), static_cast<unsigned long long>(all));
      if (answer == nullptr) PyErr_WriteUnraisable(told);
      Py_XDECREF(answer);
    };
  }
  std::optional<Result<PageCache>> cache;
  {
    const GilRelease others;
    cache.emplace(PageCache::open(usable, layout, value_len, options));
  }
  return {client.shared_box(), value_or_raise(std::move(*cache)), std::move(progress),
          std::move(memory)};
}

void bind_page_stats(nb::module_& module) {
  nb::class_<PageCacheStats>(module, "PageCacheStats",
                             "Counters of one PageCache since it was opened, and gauges of now.")
      .def_ro("backups", &PageCacheStats::backups, "Backups begun.")
      .def_ro("restores", &PageCacheStats::restores, "Restores begun.")
      .def_ro("pages_backed_up", &PageCacheStats::pages_backed_up, "Values written.")
      .def_ro("bytes_backed_up", &PageCacheStats::bytes_backed_up, "Their bytes.")
      .def_ro("pages_restored", &PageCacheStats::pages_restored, "Values read.")
      .def_ro("bytes_restored", &PageCacheStats::bytes_restored, "Their bytes.")
      .def_ro("mismatches", &PageCacheStats::mismatches, "Values whose checksum was wrong.")
      .def_ro("cancelled", &PageCacheStats::cancelled, "Jobs that were cancelled.")
      .def_ro("failed", &PageCacheStats::failed, "Jobs that ended with an error of CUDA.")
      .def_ro("running", &PageCacheStats::running, "Gauge: jobs that are not over.")
      .def_ro("registered_bytes", &PageCacheStats::registered_bytes,
              "Gauge: value memory in use by the engines.");
}

}  // namespace

void bind_page_cache(nb::module_& module) {
  bind_page_stats(module);
  module.def(
      "_layout_value_len",
      [](const std::vector<PoolTuple>& pools, const std::vector<PartTuple>& parts) {
        return value_or_raise(gpu::value_bytes(layout_of(pools, parts, false)));
      },
      nb::arg("pools"), nb::arg("parts"));
  module.def("_open_page_cache", &open, nb::arg("client"), nb::arg("pools"), nb::arg("parts"),
             nb::arg("token_first"), nb::arg("value_len"), nb::arg("engine"), nb::arg("device"),
             nb::arg("staging_bytes"), nb::arg("backup_burst_bytes"), nb::arg("progress").none(),
             nb::arg("memory"));
  nb::class_<PageCacheBox>(module, "_PageCache", "Behind orlop.gpu.PageCache.")
      .def("backup", &back_up, nb::arg("items"), nb::arg("stream"))
      .def("restore", &restore, nb::arg("items"), nb::arg("stream"), nb::arg("ranges"))
      .def("describe", [](const PageCacheBox& self) { return self.usable().describe(); })
      .def(
          "engine_for",
          [](const PageCacheBox& self, std::size_t values, bool restoring) {
            return self.usable().engine_for(values, restoring);
          },
          nb::arg("values"), nb::arg("restore"))
      .def_prop_ro("stats", [](const PageCacheBox& self) { return self.usable().stats(); });
}

}  // namespace orlop::python
