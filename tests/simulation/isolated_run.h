// SPDX-License-Identifier: Apache-2.0
// One seed in a process of its own, so that a CHECK, a sanitizer or a loop without end is a finding
// like any other. With a planted bug on, if one is named.
//
// Thread: the caller's process must have one thread (it forks and goes on in the child).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/planted.h"
#include "oracle.h"

namespace orlop::simulation {

struct Finding {
  std::uint64_t seed = 0;
  bool failed = false;
  Oracle oracle = Oracle::kCheck;                // meaningful if failed, as the two below
  std::string message;                           // one line
  std::string text;                              // options and the last events
  std::uint64_t trace_hash = 0;                  // of a run that came to its end
  std::map<std::string, std::uint64_t> reached;  // rare states (base/sometimes.h), by name
};

// CPU seconds after which a run is taken for one that never ends: a hundred times what one needs
// under a sanitizer.
inline constexpr unsigned kMostCpuSeconds = 120;

class IsolatedRun {
 public:
  // Forks. Throws std::system_error.
  explicit IsolatedRun(std::uint64_t seed, PlantedBug bug = PlantedBug::kNone);
  ~IsolatedRun();
  IsolatedRun(IsolatedRun&&) noexcept;
  IsolatedRun& operator=(IsolatedRun&&) = delete;
  pid_t pid() const { return pid_; }
  // status: what waitpid() said of pid(), which is over.
  Finding finding(int status) const;

 private:
  class Scratch;
  std::uint64_t seed_;
  std::unique_ptr<Scratch> result_, narration_;
  pid_t pid_ = 0;
};

// The same, waited for.
Finding run_isolated(std::uint64_t seed, PlantedBug bug = PlantedBug::kNone);

// Runs seeds from `first` on until one fails, at most `most`.
struct Search {
  std::uint64_t seeds = 0;  // that were run, the failing one included
  Finding finding;          // of the last one
};
Search search_seeds(std::uint64_t first, std::uint64_t most, PlantedBug bug);

}  // namespace orlop::simulation
