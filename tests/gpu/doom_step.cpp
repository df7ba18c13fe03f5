// SPDX-License-Identifier: Apache-2.0
#include "doom_step.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "engine_process.h"
#include "platform/clock.h"

namespace orlop::gpu_test {
namespace {

using Json = nlohmann::ordered_json;
using process_test::Daemon;

constexpr MonoNs kLongest = 120 * kNsPerSecond;

double ms_between(MonoNs begin, MonoNs end) {
  return static_cast<double>(end - begin) / static_cast<double>(kNsPerMs);
}
MonoNs after(double seconds) {
  return monotonic_ns() + static_cast<MonoNs>(seconds * static_cast<double>(kNsPerSecond));
}

// The child of the dead engine: ours by the kernel's rule for orphans. Gone with this object.
class Orphan {
 public:
  explicit Orphan(pid_t pid) : pid_(pid) {}
  Orphan(const Orphan&) = delete;
  Orphan& operator=(const Orphan&) = delete;
  ~Orphan() {
    kill();
    wait();
  }
  void kill() const {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
  }
  void wait() {
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_;
};

struct Changes {
  std::size_t looks = 0, changed_looks = 0, changed_mib = 0;
  MonoNs last = 0;  // the last look that found one
};

enum class Look { kGlance, kGlanceToFirstChange, kEveryByte };

// Looks again and again until then.
Changes watch(const ValueWatch& values, MonoNs until, Look how) {
  const bool every_byte = how == Look::kEveryByte;
  Changes out;
  auto before = every_byte ? values.look() : values.glance();
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // others have to work too
    auto now = every_byte ? values.look() : values.glance();
    const std::size_t changed = differences(before, now);
    ++out.looks;
    if (changed != 0) {
      ++out.changed_looks;
      out.changed_mib += changed;
      out.last = monotonic_ns();
      if (how == Look::kGlanceToFirstChange) break;
    }
    before = std::move(now);
  } while (monotonic_ns() < until);
  return out;
}

bool held_by_fork(const Daemon& daemon) {
  return std::ranges::any_of(daemon.metrics(), [](const auto& row) {
    return row.first.starts_with("orlop_client_held_by_fork") && row.second == 1;
  });
}

Json refuse(Json line, const std::string& why) {
  line["ok"] = false;
  line["error"] = why;
  return line;
}

// While the child lives. False: a reserved byte was given away.
bool hold(const Daemon& daemon, const ValueWatch& values, const DoomPlan& plan, Json& line) {
  const MonoNs dead_at = monotonic_ns();
  const Changes changes =
      watch(values, after(plan.hold_seconds),
            plan.kill_at_first_change ? Look::kGlanceToFirstChange : Look::kGlance);
  line["copies_went_on_after_death"] = changes.changed_looks > 0;
  if (changes.last != 0) line["last_change_ms_after_death"] = ms_between(dead_at, changes.last);
  const double reserved = daemon.metric("orlop_prepared_bytes");
  line["reserved_bytes_while_child_lives"] = reserved;
  bool kept = reserved > 0 && held_by_fork(daemon);
  if (!plan.press) return kept;
  WorkerOptions press = plan.engine;
  press.role = "press";
  press.set = plan.engine.set + "-press";
  // Half as much again as there is room for: slots are reused, never the dead engine's.
  press.values = static_cast<std::uint32_t>(1.5 * (static_cast<double>(values.bytes()) - reserved) /
                                            static_cast<double>(model_of(press).value_len()));
  Json pressed = run_engine(press);
  kept = kept && pressed["ok"] == Json(true);
  line["press"] = std::move(pressed);
  return kept && daemon.metric("orlop_prepared_bytes") == reserved;
}

}  // namespace

Json doom(const Daemon& daemon, const ValueWatch& values, const DoomPlan& plan) {
  Json line = {{"step", "killed with copies queued"},
               {"engine", plan.engine.engine},
               {"layout", plan.engine.arrangement},
               {"busy_seconds", plan.engine.busy_seconds},
               {"hold_seconds", plan.hold_seconds},
               {"kill_at_first_change", plan.kill_at_first_change},
               {"pipes_closed_last", plan.engine.pipes_last}};
  // The engine's child becomes ours when the engine dies.
  (void)::prctl(PR_SET_CHILD_SUBREAPER, 1);
  auto engine = EngineProcess::start(plan.engine);
  if (!engine) return refuse(line, engine.error().message);
  const auto said = engine->next_line(monotonic_ns() + kLongest);
  if (!said || !said->value("ok", false) || !said->contains("child"))
    return refuse(line, "the engine did not queue its copies: " + said.value_or(Json()).dump());
  line["doomed"] = *said;
  Orphan child((*said)["child"].get<pid_t>());
  const auto status = engine->wait(monotonic_ns() + kLongest);  // its pidfd fires
  if (!status || !status->by_signal || status->value != SIGKILL)
    return refuse(line, "the engine did not die by SIGKILL but: " +
                            (status ? to_string(*status) : status.error().message));

  const bool held = hold(daemon, values, plan, line);
  line["held"] = held;
  const MonoNs killed_at = monotonic_ns();
  child.kill();
  const bool reclaimed = process_test::eventually(
      [&] { return daemon.metric("orlop_prepared_bytes") == 0; }, /*seconds=*/60);
  const MonoNs reclaimed_at = monotonic_ns();
  line["reclaimed_ms_after_child_killed"] = ms_between(killed_at, reclaimed_at);
  // Not before every byte has been looked at twice.
  const Changes early = watch(values, reclaimed_at, Look::kGlance);
  const Changes late = watch(values, after(plan.watch_seconds), Look::kEveryByte);
  child.wait();
  line["looks_after_reclaim"] = early.looks + late.looks;
  line["changed_looks_after_reclaim"] = early.changed_looks + late.changed_looks;
  line["changed_mib_after_reclaim"] = early.changed_mib + late.changed_mib;
  line["ok"] = held && reclaimed && early.changed_looks + late.changed_looks == 0;
  return line;
}

}  // namespace orlop::gpu_test
