// SPDX-License-Identifier: Apache-2.0
// What a benchmark found, held against its bars: the same shape for every `orlop bench NAME`.
// Pure.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/report.h"

namespace orlop::cli {

enum class BarSense { kAtMost, kAtLeast, kBelow };

struct BenchBar {
  std::string name;             // stable, "put128_a"
  std::optional<double> value;  // none: could not be measured, `note` says why; the bar is missed
  double bar = 0;
  BarSense sense = BarSense::kAtMost;
  std::string unit;  // "x" for a ratio, "B", "s", "ms", "" for a count
  std::string note;  // a few words: the two sides of a ratio, or why there is no value

  bool ok() const;
};

struct BenchReport {
  std::vector<BenchBar> bars;
  std::vector<std::string> remarks;  // what has no bar: skipped rows, figures printed apart
  std::string machine;               // this_machine()
  std::string date;                  // UTC, "2026-01-31T12:00:00Z"

  bool ok() const;  // every bar holds, and there is at least one
};

// {"bars": [{"name", "value", "bar", "ok", "sense", "unit", "note"}], "remarks", "machine", "date",
//  "ok"}; a value that is not there is null.
nlohmann::ordered_json to_json(const BenchReport& report);
std::string to_table(const BenchReport& report, const Painter& paint);

// "Intel(R) Xeon(R) Processor, 2 CPUs, 23.5 GiB, Linux 6.18.44, load 2.5".
std::string this_machine();
std::string utc_date();

// ---- figures from samples

// The middle one (the upper of two). Requires: not empty.
double median(std::vector<double> samples);

// The best of several rounds of `measured against reference`; a round is the two medians.
class BestRatio {
 public:
  void add(double measured, double reference);
  double ratio() const { return ratio_; }
  // "12.3 us against 3.50 us" of the best round; seconds are given.
  std::string sides() const;

 private:
  double ratio_ = 0, measured_ = 0, reference_ = 0;
  bool any_ = false;
};

}  // namespace orlop::cli
