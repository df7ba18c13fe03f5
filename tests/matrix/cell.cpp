// SPDX-License-Identifier: Apache-2.0
#include "cell.h"

#include <signal.h>

#include <array>
#include <optional>
#include <thread>
#include <utility>

#include "base/units.h"
#include "host.h"
#include "platform/clock.h"

namespace orlop::matrix {
namespace {

constexpr std::array kFaults = {Fault::kKillClient, Fault::kKillServer, Fault::kKillKeeper,
                                Fault::kStop, Fault::kUpgrade};

// More than the witness can have had on its way when the fault came.
constexpr std::uint64_t kHitsMeanwhile = 200;
// Of the victim, so that every place of its life comes up.
constexpr std::uint64_t kVictimRounds = 7;
constexpr MonoNs kReachLimit = 10 * kNsPerSecond;
constexpr unsigned kProvocations = 4;

// Places that a host at work does not come to by itself.
enum class Provocation { kNone, kFirstStart, kServerDeath, kClientDeath, kUpgrade };

Provocation provocation_of(PausePoint point) {
  switch (point) {
    case PausePoint::kKeeperStarting:
      return Provocation::kFirstStart;
    case PausePoint::kClientResuming:
    case PausePoint::kServerStarting:
    case PausePoint::kServerRecovered:
    case PausePoint::kServerServing:
    case PausePoint::kKeeperSpawned:
    case PausePoint::kKeeperServing:
    case PausePoint::kKeeperServerEnded:
      return Provocation::kServerDeath;
    case PausePoint::kServerReclaiming:
      return Provocation::kClientDeath;
    case PausePoint::kKeeperReloading:
    case PausePoint::kKeeperChecked:
    case PausePoint::kServerStopping:
      return Provocation::kUpgrade;
    default:
      return Provocation::kNone;
  }
}

class CellRun {
 public:
  CellRun(const Cell& cell, const CellLimits& limits, CellResult& result)
      : cell_(cell), limits_(limits), result_(result), host_(result.complaints) {}

  void run() {
    if (!reach()) return;
    fault();
    if (host_.witness() != nullptr) {
      require_hits(kHitsMeanwhile, "the witness' hits go on while the fault lasts");
    }
    release();
    if (!recover()) return;
    reclaimed();
    progress();
    contents();
    leave();
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
      if (!provoke(provocation)) return false;
      thread = host_.pauses().wait_stopped(monotonic_ns() + kReachLimit);
    }
    if (!thread) {
      host_.complain("no process came to " + std::string(to_string(cell_.point)));
      return false;
    }
    stopped_ = *thread;
    return true;
  }

  bool provoke(Provocation provocation) {
    if (provocation == Provocation::kServerDeath) {
      if (!host_.await_serving()) return false;
      host_.kill_servers();
    }
    if (provocation == Provocation::kClientDeath) {
      if (!host_.start_visitor()) return false;
      host_.kill_visitor();
    }
    if (provocation == Provocation::kUpgrade) host_.daemon().hang_up();
    return true;
  }

  void fault() {
    died_ = monotonic_ns();
    switch (cell_.fault) {
      case Fault::kKillClient:
        host_.kill_victim();
        break;
      case Fault::kKillServer:
        host_.kill_servers();
        break;
      case Fault::kKillKeeper:
        host_.kill_keeper();
        break;
      case Fault::kStop:
        stand_still(SIGSTOP);
        host_.pauses().let_go();  // so that it goes on when it may
        break;
      case Fault::kUpgrade:
        host_.daemon().hang_up();
        break;
    }
  }

  // The process, not only the thread. A thread's id serves kill() as its process'.
  void stand_still(int signal_number) { ::kill(stopped_, signal_number); }

  void release() {
    if (cell_.fault == Fault::kStop) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(limits_.stop));
      stand_still(SIGCONT);
    }
    if (cell_.fault != Fault::kStop) host_.pauses().let_go();
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
    const std::uint64_t before = witness().verified;
    witness().order = Order::kVerify;
    if (!host_.require("the witness reads all of its pages",
                       [&] { return witness().verified > before; }))
      return;
    if (witness().missing != 0)
      host_.complain(std::to_string(witness().missing) + " stored pages are gone");
    result_.longest_call = witness().longest_call_ns;
    if (witness().calls_over != 0) {
      host_.complain(std::to_string(witness().calls_over) + " calls of the witness took up to " +
                     format_duration_ns(witness().longest_call_ns));
    }
  }

  void leave() {
    leave(*host_.victim(), "victim");
    leave(*host_.witness(), "witness");
    host_.require("nothing is left in the node", [&] {
      const auto metrics = host_.daemon().metrics();
      double used = 0;
      for (const auto& [name, value] : metrics) {
        const bool of_use = name.starts_with("orlop_slots{") && !name.ends_with("\"free\"}");
        if (of_use || name == "orlop_clients_known" || name == "orlop_pinned_groups" ||
            name == "orlop_prepared_bytes" || name == "orlop_open_puts" ||
            name == "orlop_doomed_slots")
          used += value;
      }
      return !metrics.empty() && used == 0;
    });
    host_.daemon().terminate();
    const ExitStatus ended = host_.daemon().wait_exit();
    if (ended.by_signal || ended.value != 0) host_.complain("the node: " + to_string(ended));
  }

  void leave(WorkerProcess& worker, const std::string& who) {
    const std::uint64_t wrong = worker.report().wrong;
    if (wrong != 0) host_.complain(std::to_string(wrong) + " wrong values read by the " + who);
    const auto ended = worker.stop();
    if (!ended) {
      host_.complain("the " + who + " does not end: " + ended.error().message);
    } else if (ended->by_signal || ended->value != 0) {
      host_.complain("the " + who + ": " + to_string(*ended));
    }
  }

  const Cell cell_;
  const CellLimits limits_;
  CellResult& result_;
  Host host_;
  pid_t stopped_ = 0;
  MonoNs died_ = 0;
};

}  // namespace

std::span<const Fault> all_faults() {
  return kFaults;
}

std::string_view to_string(Fault fault) {
  switch (fault) {
    case Fault::kKillClient:
      return "kill_client";
    case Fault::kKillServer:
      return "kill_server";
    case Fault::kKillKeeper:
      return "kill_keeper";
    case Fault::kStop:
      return "stop";
    case Fault::kUpgrade:
      return "upgrade";
  }
  return "?";
}

std::vector<Cell> all_cells() {
  std::vector<Cell> cells;
  for (const PausePoint point : all_pause_points()) {
    for (const Fault fault : kFaults) cells.push_back({point, fault});
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
