// SPDX-License-Identifier: Apache-2.0
#include "gpu/bench/gpu_bench.h"

#include <sys/utsname.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gpu/bench/bench_groups.h"
#include "gpu/cuda_call.h"
#include "gpu/cuda_device.h"

namespace orlop::gpu {
namespace {

struct Group {
  const char* name;
  Result<void> (*run)(BenchRun&);
};
// First what the libraries of other groups would leave behind before it; then the link, while
// nothing has warmed the machine up; baselines that take SMs last.
constexpr Group kGroups[] = {{"graph", bench_graph},
                             {"throughput", bench_throughput},
                             {"latency", bench_latency},
                             {"ranges", bench_ranges},
                             {"submit", bench_submit},
                             {"order", bench_order},
                             {"registration", bench_registration},
                             {"host", bench_host},
                             {"gemm", bench_gemm},
                             {"baselines", bench_baselines}};

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// What the kernel says of the device's link: "32.0 GT/s PCIe x16 (of 32.0 GT/s PCIe x16)".
std::string link_of(int device) {
  char bus[32] = {};
  if (cudaDeviceGetPCIBusId(bus, sizeof bus, device) != cudaSuccess) return "unknown";
  std::string folder = std::string("/sys/bus/pci/devices/") + bus + "/";
  std::ranges::transform(folder, folder.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::string speed = first_line(folder + "current_link_speed");
  if (speed.empty()) return "unknown";
  return speed + " x" + first_line(folder + "current_link_width") + " (of " +
         first_line(folder + "max_link_speed") + " x" + first_line(folder + "max_link_width") + ")";
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32] = {};
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Result<GpuBenchReport> describe_machine(int device) {
  const auto key = device_key(device);
  BENCH_TRY(key);
  GpuBenchReport report;
  report.device = key->device;
  report.uuid = key->uuid;
  report.driver = key->driver;
  report.cpu = cpu_name();
  utsname system{};
  uname(&system);
  report.kernel = system.release;
  report.date = utc_now();
  report.link = link_of(device);
  return report;
}

const char* kind_name(BarKind kind) {
  switch (kind) {
    case BarKind::kNone:
      return "none";
    case BarKind::kAtLeast:
      return "at_least";
    case BarKind::kAtMost:
      return "at_most";
  }
  return "";
}

// A misspelt group would measure nothing, and of nothing all bars hold.
Result<void> check_groups(const std::vector<std::string>& only) {
  std::string names;
  for (const Group& group : kGroups) names += std::string(names.empty() ? "" : ", ") + group.name;
  for (const std::string& name : only) {
    if (std::ranges::find(kGroups, name, &Group::name) == std::end(kGroups)) {
      return fail(ErrorCode::kInvalidArgument, "no group '" + name + "'; there are " + names);
    }
  }
  return {};
}

}  // namespace

bool GpuBenchRow::ok() const {
  switch (bar_kind) {
    case BarKind::kNone:
      return true;
    case BarKind::kAtLeast:
      return judged >= bar;
    case BarKind::kAtMost:
      return judged <= bar;
  }
  return false;
}

bool GpuBenchReport::ok() const {
  return std::ranges::all_of(rows, [](const GpuBenchRow& row) { return row.ok(); });
}

Result<std::unique_ptr<CudaCopier>> bench_copier(int device, std::optional<EngineKind> engine,
                                                 unsigned blocks) {
  CudaCopierOptions options;
  options.device = device;
  options.engine = engine;
  options.blocks = blocks;
  return make_cuda_copier(options);
}

Result<GpuBenchReport> run_gpu_bench(const GpuBenchOptions& options) {
  BENCH_TRY(check_groups(options.only));
  auto report = describe_machine(options.device);
  BENCH_TRY(report);
  options.progress("memory");
  auto bed = BenchBed::make(options.device, options.batch_bytes + (std::uint64_t{256} << 20));
  BENCH_TRY(bed);
  std::string note;
  CudaCopierOptions wish;
  wish.device = options.device;
  wish.table = machine_engine_table(options.device, &note);
  options.progress(note);
  auto copier = make_cuda_copier(wish);
  BENCH_TRY(copier);
  BenchRun run{options, **bed, **copier, report->rows};
  for (const Group& group : kGroups) {
    if (!options.only.empty() &&
        std::ranges::find(options.only, group.name) == options.only.end()) {
      continue;
    }
    options.progress(group.name);
    if (Result<void> done = group.run(run); !done) {
      Error error = std::move(done.error());
      error.message = std::string(group.name) + ": " + error.message;
      return std::unexpected(std::move(error));
    }
  }
  return report;
}

std::string to_json(const GpuBenchReport& report) {
  nlohmann::json json = {
      {"device", report.device}, {"uuid", report.uuid},     {"driver", report.driver},
      {"cpu", report.cpu},       {"kernel", report.kernel}, {"date", report.date},
      {"link", report.link},     {"ok", report.ok()},       {"rows", nlohmann::json::array()}};
  for (const GpuBenchRow& row : report.rows) {
    nlohmann::json to = {{"group", row.group},   {"name", row.name},
                         {"unit", row.unit},     {"value", row.value},
                         {"judged", row.judged}, {"bar_kind", kind_name(row.bar_kind)},
                         {"ok", row.ok()}};
    if (row.baseline != 0) to["baseline"] = row.baseline;
    if (row.bar_kind != BarKind::kNone) to["bar"] = row.bar;
    if (!row.note.empty()) to["note"] = row.note;
    json["rows"].push_back(std::move(to));
  }
  return json.dump(1) + "\n";
}

std::string to_table(const GpuBenchReport& report) {
  std::string text = report.device + ", driver CUDA " + report.driver + ", link " + report.link +
                     "\n" + report.cpu + ", " + report.kernel + ", " + report.date + "\n";
  for (const GpuBenchRow& row : report.rows) {
    char line[256];
    std::snprintf(line, sizeof line, "%-12s %-52s %9.2f %9.2f %-6s %6.3f", row.group.c_str(),
                  row.name.c_str(), row.value, row.baseline, row.unit.c_str(), row.judged);
    text += line;
    if (row.bar_kind != BarKind::kNone) {
      std::snprintf(line, sizeof line, " %s %.2f%s",
                    row.bar_kind == BarKind::kAtLeast ? ">=" : "<=", row.bar,
                    row.ok() ? "" : " MISSED");
      text += line;
    }
    if (!row.note.empty()) text += "  " + row.note;
    text += '\n';
  }
  return text;
}

}  // namespace orlop::gpu
