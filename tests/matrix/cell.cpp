// SPDX-License-Identifier: Apache-2.0
#include "cell.h"

#include <optional>
#include <thread>
#include <utility>

#include "base/units.h"
#include "host.h"
#include "platform/clock.h"

namespace orlop::matrix {
namespace {

// More than the witness can have had on its way when the fault came.
constexpr std::uint64_t kHitsMeanwhile = 200;
// Of the victim, so that every place of its life comes up.
constexpr std::uint64_t kVictimRounds = 7;
constexpr MonoNs kReachLimit = 10 * kNsPerSecond;
constexpr unsigned kProvocations = 4;

class CellRun {
 public:
  CellRun(const Cell& cell, const CellLimits& limits, CellResult& result)
      : cell_(cell), limits_(limits), result_(result), host_(result.complaints) {}

  void run() {
    if (!reach()) return;
    died_ = monotonic_ns();
    strike(host_, cell_.fault, stopped_);
    if (host_.witness() != nullptr) {
      require_hits(kHitsMeanwhile, "the witness' hits go on while the fault lasts");
    }
    release();
    if (!recover()) return;
    reclaimed();
    progress();
    contents();
    host_.leave_clients();
    host_.stop_node();
  }
  std::string log() const { return host_.log(); }

 private:
  PauseProcess process() const { return process_of(cell_.point); }
  WorkerReport& witness() { return host_.witness()->report(); }

  // The host is at work, and one of its processes stands at the point.
  bool reach() {
    const Provocation provocation = provocation_of(cell_.point);
    const bool first = provocation == Provocation::kFirstStart;
    if (first) host_.pauses().arm(cell_.point);
    host_.start_node();
    if (!first) {
      if (!host_.await_serving() || !host_.start_witness()) return false;
      if (!host_.start_victim() || !victim_advances(kVictimRounds)) return false;
      host_.pauses().arm(cell_.point, provocation == Provocation::kNone ? limits_.skip : 0);
    } else if (!host_.start_victim()) {
      return false;
    }
    // The victim may just have been between two attachments: once more then.
    std::optional<pid_t> thread;
    for (unsigned i = 0; i < kProvocations && !thread; ++i) {
      if (!prepare(host_, provocation)) return false;
      provoke(host_, provocation);
      thread = host_.pauses().wait_stopped(monotonic_ns() + kReachLimit);
    }
    if (!thread) {
      host_.complain("no process came to " + std::string(to_string(cell_.point)));
      return false;
    }
    stopped_ = *thread;
    return true;
  }

  void release() {
    if (cell_.fault == Fault::kStop)
      std::this_thread::sleep_for(std::chrono::nanoseconds(limits_.stop));
    matrix::release(host_, cell_.fault, stopped_);
    died_ = monotonic_ns();  // from here on everybody who lives may act
  }

  bool recover() {
    if (cell_.fault == Fault::kKillKeeper) host_.start_node();
    if (!host_.await_serving()) return false;
    // A server that had to be born first is no slow reclaim.
    if (provocation_of(cell_.point) != Provocation::kNone) died_ = monotonic_ns();
    if (host_.witness() == nullptr && !host_.start_witness()) return false;
    if (cell_.fault == Fault::kUpgrade) {
      return host_.require("an upgrade succeeds", [&] {
        return host_.metric("orlop_upgrades_total{outcome=\"succeeded\"}") >= 1;
      });
    }
    return true;
  }

  // Of a killed client nothing is left: only the witness is known.
  void reclaimed() {
    if (cell_.fault != Fault::kKillClient) return;
    const bool back = host_.require("the dead client's memory is given back",
                                    [&] { return host_.metric("orlop_clients_known") == 1; });
    result_.reclaim = monotonic_ns() - died_;
    if (back && result_.reclaim > limits_.reclaim) {
      host_.complain("reclaim took " + format_duration_ns(result_.reclaim) + ", allowed are " +
                     format_duration_ns(limits_.reclaim));
    }
  }

  void progress() {
    if (host_.victim() == nullptr || host_.victim()->over()) {
      if (host_.victim() != nullptr) host_.complain("the victim ended by itself");
      if (!host_.start_victim()) return;
    }
    victim_advances(kVictimRounds);
    const std::uint64_t stored = host_.victim()->report().stored;
    host_.require("the victim stores again",
                  [&] { return host_.victim()->report().stored > stored; });
    require_hits(kHitsMeanwhile, "the witness reads on afterwards");
  }

  bool victim_advances(std::uint64_t rounds) {
    const std::uint64_t from = host_.victim()->report().rounds;
    return host_.require("the victim works",
                         [&] { return host_.victim()->report().rounds >= from + rounds; });
  }

  void require_hits(std::uint64_t more, const std::string& what) {
    const std::uint64_t from = witness().hits;
    host_.require(what, [&] { return witness().hits >= from + more; });
  }

  void contents() {
    if (!host_.check_contents()) return;
    result_.longest_call = witness().longest_call_ns;
  }

  const Cell cell_;
  const CellLimits limits_;
  CellResult& result_;
  Host host_;
  pid_t stopped_ = 0;
  MonoNs died_ = 0;
};

}  // namespace

std::vector<Cell> all_cells() {
  std::vector<Cell> cells;
  for (const PausePoint point : all_pause_points()) {
    for (const Fault fault : all_faults()) cells.push_back({point, fault});
  }
  return cells;
}

std::string name_of(const Cell& cell) {
  return std::string(to_string(cell.point)) + "/" + std::string(to_string(cell.fault));
}

CellResult run_cell(const Cell& cell, const CellLimits& limits) {
  CellResult result;
  const MonoNs begun = monotonic_ns();
  {
    CellRun run(cell, limits, result);
    run.run();
    if (!result.complaints.empty()) result.log = run.log();
  }
  result.took = monotonic_ns() - begun;
  return result;
}

}  // namespace orlop::matrix
