// SPDX-License-Identifier: Apache-2.0
// The engine processes of the end-to-end program: the program started again with --worker ROLE.
// Each speaks only the public API, prints one JSON object a step on standard output and exits with
// 0 when all was as it should be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache_memory.h"
#include "orlop/gpu.h"
#include "paged_model.h"

namespace orlop::gpu_test {

struct WorkerOptions {
  std::string role;    // backup, restore, doomed, press
  std::string socket;  // of the node
  std::string engine = "auto";
  std::string memory = "host";  // host, gpu; the engine "host" always uses the host's
  std::string size = "small";   // small, large
  std::string arrangement = "nhd";
  std::string set = "a";         // beginning of the keys
  std::uint32_t values = 16;     // keys of the set
  std::uint32_t expected = ~0u;  // restore: pages that come back right; default: all
  // doomed: how long the device is busy before the copies begin; how the child treats its pipes.
  double busy_seconds = 0;
  bool pipes_last = false;
};

// Adds the options that are not the role's to a command line for another process.
std::vector<std::string> worker_arguments(const WorkerOptions& options);

int run_worker(const WorkerOptions& options);

// ---- the roles
// Fills a cache, backs it up in two plans of one call; every value must be stored.
int run_backup(const WorkerOptions& options);
// Restores into other pages, in two ranges of layers, and compares the whole cache byte by byte.
int run_restore(const WorkerOptions& options);
// Forks a child that lives on, queues backups of all values and ends itself with SIGKILL. Its one
// line says the child's pid. The child ends when its standard input does.
int run_doomed(const WorkerOptions& options);
// Puts and reads values of its own in host memory, more than there is room for.
int run_press(const WorkerOptions& options);

// ---- what they share
std::optional<CopyEngineChoice> engine_choice(const std::string& name);
MemoryKind memory_kind(const WorkerOptions& options);
Model model_of(const WorkerOptions& options);
std::vector<std::string> key_texts(const std::string& set, std::uint32_t count);
// Attached within 20 s; else an error.
Result<Client> open_client(const WorkerOptions& options);

}  // namespace orlop::gpu_test
