// SPDX-License-Identifier: Apache-2.0
// An engine dies by SIGKILL with backups queued while a child it forked lives: its slots must stay
// reserved until the child is gone, and no byte of value memory may change after they are given
// back. Says whether copies went on after the engine's death was proved.
#pragma once

#include <nlohmann/json.hpp>

#include "daemon.h"
#include "value_watch.h"
#include "worker.h"

namespace orlop::gpu_test {

struct DoomPlan {
  WorkerOptions engine;     // role doomed
  double hold_seconds = 1;  // the child outlives the engine by this; looked at all the while
  // The child is killed as soon as bytes are seen to change after the engine's death.
  bool kill_at_first_change = false;
  // Another engine puts and reads more than the free memory holds before the child is killed.
  bool press = true;
  double watch_seconds = 1;  // after the slots were given back
};

nlohmann::ordered_json doom(const process_test::Daemon& daemon, const ValueWatch& values,
                            const DoomPlan& plan);

}  // namespace orlop::gpu_test
