// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_bars.h"

#include <stdlib.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/check.h"
#include "base/units.h"
#include "platform/process.h"
#include "platform/small_file.h"

namespace orlop::cli {
namespace {

const char* sense_text(BarSense sense) {
  switch (sense) {
    case BarSense::kAtMost:
      return "<=";
    case BarSense::kAtLeast:
      return ">=";
    case BarSense::kBelow:
      return "<";
  }
  return "";
}

// Three significant digits, no exponent for what a person reads.
std::string number(double value) {
  const double size = std::fabs(value);
  const int decimals = size == std::floor(size) && size < 1e15 ? 0
                       : size >= 100                           ? 0
                       : size >= 10                            ? 1
                       : size >= 1                             ? 2
                                                               : 3;
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string with_unit(double value, const std::string& unit) {
  return number(value) + (unit.empty() ? "" : " " + unit);
}

// "model name	: Intel ..." of /proc/cpuinfo.
std::string processor_name() {
  const auto text = read_text_file("/proc/cpuinfo");
  if (!text) return "unknown processor";
  const auto at = text->find("model name");
  if (at == std::string::npos) return "unknown processor";
  const auto colon = text->find(": ", at);
  if (colon == std::string::npos) return "unknown processor";
  return text->substr(colon + 2, text->find('\n', colon) - colon - 2);
}

std::string total_memory() {
  const auto text = read_text_file("/proc/meminfo");
  if (!text) return "unknown memory";
  std::istringstream in(*text);
  std::string label;
  std::uint64_t kib = 0;
  in >> label >> kib;
  return format_bytes(kib * 1024);
}

}  // namespace

bool BenchBar::ok() const {
  if (!value || std::isnan(*value)) return false;
  switch (sense) {
    case BarSense::kAtMost:
      return *value <= bar;
    case BarSense::kAtLeast:
      return *value >= bar;
    case BarSense::kBelow:
      return *value < bar;
  }
  return false;
}

bool BenchReport::ok() const {
  return !bars.empty() && std::ranges::all_of(bars, [](const BenchBar& bar) { return bar.ok(); });
}

nlohmann::ordered_json to_json(const BenchReport& report) {
  auto bars = nlohmann::ordered_json::array();
  for (const BenchBar& bar : report.bars) {
    nlohmann::ordered_json row{{"name", bar.name}, {"value", nullptr}, {"bar", bar.bar}};
    if (bar.value) row["value"] = *bar.value;
    row["ok"] = bar.ok();
    row["sense"] = sense_text(bar.sense);
    row["unit"] = bar.unit;
    row["note"] = bar.note;
    bars.push_back(std::move(row));
  }
  return {{"bars", bars},
          {"remarks", report.remarks},
          {"machine", report.machine},
          {"date", report.date},
          {"ok", report.ok()}};
}

std::string to_table(const BenchReport& report, const Painter& paint) {
  Table table("lrrll");
  table.row({paint(Ink::kBold, "bar"), "value", "wanted", "", ""});
  for (const BenchBar& bar : report.bars) {
    table.row({bar.name, bar.value ? with_unit(*bar.value, bar.unit) : "-",
               std::string(sense_text(bar.sense)) + " " + with_unit(bar.bar, bar.unit),
               bar.ok() ? paint(Ink::kGood, "ok") : paint(Ink::kBad, "MISSED"),
               paint(Ink::kDim, bar.note)});
  }
  std::string text = table.text();
  for (const std::string& remark : report.remarks) text += "  " + remark + "\n";
  return text + "  " + report.machine + ", " + report.date + "\n";
}

std::string this_machine() {
  utsname kernel{};
  ::uname(&kernel);
  double load[1] = {0};
  (void)::getloadavg(load, 1);
  return processor_name() + ", " + std::to_string(cpu_count()) + " CPUs, " + total_memory() +
         ", Linux " + kernel.release + ", load " + number(load[0]);
}

std::string utc_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

double median(std::vector<double> samples) {
  CHECK(!samples.empty(), "a median needs samples");
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

void BestRatio::add(double measured, double reference) {
  const double ratio = measured / reference;
  if (any_ && ratio >= ratio_) return;
  any_ = true;
  ratio_ = ratio;
  measured_ = measured;
  reference_ = reference;
}

std::string BestRatio::sides() const {
  const auto text = [](double seconds) {
    const double ns = seconds * 1e9;
    // format_duration_ns knows whole nanoseconds only.
    return ns < 100 ? number(ns) + " ns" : format_duration_ns(static_cast<MonoNs>(ns));
  };
  return text(measured_) + " against " + text(reference_);
}

}  // namespace orlop::cli
