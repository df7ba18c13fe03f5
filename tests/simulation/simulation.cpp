// SPDX-License-Identifier: Apache-2.0
#include "simulation.h"

#include <csignal>
#include <cstdio>

#include "node_oracle.h"
#include "quiet_phase.h"
#include "sim_client.h"
#include "sim_keeper.h"
#include "world.h"

namespace orlop::simulation {
namespace {

const World* g_running = nullptr;  // for the SIGABRT handler only

std::string describe(const World& world) {
  return world.options.text() + "\n last events:\n" + world.trace.text() +
         " replay: ./dev sim --seed " + std::to_string(world.options.seed);
}

// CHECK aborts on this thread, between two statements: reading the world is as good as it gets.
void on_abort(int) {
  if (g_running == nullptr) return;
  std::fprintf(stderr, "%s\n", describe(*g_running).c_str());
  if (g_running->verdict.failed())
    std::fprintf(stderr, "an oracle had failed before: %s: %s\n",
                 std::string(to_string(g_running->verdict.failure()->oracle)).c_str(),
                 g_running->verdict.failure()->message.c_str());
}

// O(slots): now and then.
void check_between_steps(World& world) {
  if (world.rng.uniform(40) == 0) check_node(world);
}

}  // namespace

void print_run_on_abort() {
  std::signal(SIGABRT, on_abort);
}

Report run_simulation(std::uint64_t seed) {
  World world(Options::from_seed(seed));
  g_running = &world;
  for (std::uint32_t step = 0; step < world.options.steps && !world.verdict.failed(); ++step) {
    world.step();
    check_between_steps(world);
  }
  if (!world.verdict.failed()) QuietPhase(world).run();
  Report report{.seed = seed,
                .failure = world.verdict.failure(),
                .text = {},
                .trace_hash = world.trace.hash()};
  if (report.failure) report.text = describe(world);
  g_running = nullptr;
  return report;
}

}  // namespace orlop::simulation
