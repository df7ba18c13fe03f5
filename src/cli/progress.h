// SPDX-License-Identifier: Apache-2.0
// How far something is: a bar that redraws itself on a terminal, a plain line at every quarter
// otherwise (logs stay readable). Written to a descriptor that is not the result's (stderr).
// Thread: one.
#pragma once

#include <cstdint>
#include <string>

#include "base/ids.h"

namespace orlop::cli {

class Progress {
 public:
  // quiet: writes nothing. label: what is being done.
  Progress(int fd, std::string label, bool quiet);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { finish(); }

  // now: CLOCK_MONOTONIC; redraws at most ten times a second. note: a few words after the bar.
  void update(std::uint64_t done, std::uint64_t total, const std::string& note, MonoNs now);
  // A line of its own, between redraws.
  void say(const std::string& line);
  // Leaves the last state of the bar and ends its line. Idempotent.
  void finish();

 private:
  void write(const std::string& text) const;
  void draw();

  int fd_;
  std::string label_;
  bool quiet_;
  bool terminal_;
  bool drawn_ = false;
  MonoNs last_draw_ = 0;
  unsigned last_quarter_ = 0;
  std::uint64_t done_ = 0, total_ = 0;
  std::string note_;
};

}  // namespace orlop::cli
