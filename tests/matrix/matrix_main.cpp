// SPDX-License-Identifier: Apache-2.0
// orlop_matrix: runs cells of the crash matrix, each in a process of its own, and prints the table.
// Exit status: 0 every cell held, 1 one did not, 2 usage.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "base/units.h"
#include "cell.h"
#include "platform/clock.h"
#include "platform/process.h"

namespace orlop::matrix {
namespace {

using Json = nlohmann::ordered_json;

// A cell that hangs in spite of its own limits.
constexpr MonoNs kCellLimit = 400 * kNsPerSecond;

struct Options {
  std::string one, only, rotate;
  std::size_t cells = 0;  // 0: all
  std::uint32_t skip = 0;
  unsigned jobs = std::max(1u, cpu_count());
  std::uint64_t stop_ms = 5'000, reclaim_ms = 1'000;
  bool json = false, full = false;
};

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = ::read(fd, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(n));
  return text;
}

int run_one(const Options& options) {
  for (const Cell& cell : all_cells()) {
    if (name_of(cell) != options.one) continue;
    const CellResult result = run_cell(cell, {.stop = options.stop_ms * kNsPerMs,
                                              .skip = options.skip,
                                              .reclaim = options.reclaim_ms * kNsPerMs});
    const Json json = {{"cell", options.one},
                       {"skip", options.skip},
                       {"complaints", result.complaints},
                       {"reclaim_ms", static_cast<double>(result.reclaim) / kNsPerMs},
                       {"longest_call_ms", static_cast<double>(result.longest_call) / kNsPerMs},
                       {"took_ms", static_cast<double>(result.took) / kNsPerMs},
                       {"log", result.log}};
    std::printf("%s\n", json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
    return result.complaints.empty() ? 0 : 1;
  }
  std::fprintf(stderr, "orlop_matrix: no cell %s\n", options.one.c_str());
  return 2;
}

// Which arrival at the point it is to be: another one with another --rotate.
std::uint32_t skip_of(const std::string& name, const Options& options) {
  if (options.rotate.empty()) return 0;
  return static_cast<std::uint32_t>(std::hash<std::string>{}(name + options.rotate) % 5);
}

// In a process of its own: what it leaves behind ends with it.
Json run_in_process(const std::string& name, const Options& options) {
  const auto failed = [&](const std::string& why) {
    return Json{{"cell", name}, {"complaints", Json::array({why})}};
  };
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failed("no pipe");
  const FileDescriptor read_end(ends[0]);
  FileDescriptor write_end(ends[1]);
  auto child = spawn(
      {.path = "/proc/self/exe",
       .arguments = {"orlop_matrix", "--one", name, "--stop-ms", std::to_string(options.stop_ms),
                     "--reclaim-ms", std::to_string(options.reclaim_ms), "--skip",
                     std::to_string(skip_of(name, options))},
       .environment = {},
       .keep = {{write_end.get(), 1}},
       .parent_death_signal = SIGKILL});
  write_end.reset();
  if (!child) return failed(child.error().message);
  const std::string text = read_all(read_end.get());
  const auto ended = reap_child(child->pidfd, monotonic_ns() + kCellLimit);
  Json json = Json::parse(text, nullptr, false);
  if (json.is_object() && json.contains("complaints")) return json;
  return failed(ended && *ended ? "the cell's process: " + to_string(**ended)
                                : "the cell's process does not end");
}

std::vector<std::string> chosen_cells(const Options& options) {
  std::vector<std::string> names;
  for (const Cell& cell : all_cells()) {
    const std::string name = name_of(cell);
    if (options.only.empty() || name.find(options.only) != std::string::npos) names.push_back(name);
  }
  if (options.full || options.cells == 0 || options.cells >= names.size()) return names;
  // A part that another commit chooses differently: over time all cells come up.
  Rng rng(std::hash<std::string>{}(options.rotate));
  for (std::size_t i = names.size() - 1; i > 0; --i) std::swap(names[i], names[rng.uniform(i + 1)]);
  names.resize(options.cells);
  return names;
}

std::vector<Json> run_cells(const std::vector<std::string>& names, const Options& options) {
  std::vector<Json> results(names.size());
  std::atomic<std::size_t> next{0};
  std::mutex output;
  const auto work = [&] {
    for (std::size_t i; (i = next.fetch_add(1)) < names.size();) {
      results[i] = run_in_process(names[i], options);
      const std::lock_guard lock(output);
      for (const auto& complaint : results[i]["complaints"]) {
        std::fprintf(stderr, "FAILED %s: %s\n", names[i].c_str(),
                     complaint.get<std::string>().c_str());
      }
      if (!results[i]["complaints"].empty())
        std::fprintf(stderr, "%s\n", results[i].value("log", "").c_str());
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < options.jobs; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  return results;
}

// Points down, faults across: ok, FAIL or nothing (not run).
void print_table(const std::vector<Json>& results) {
  std::map<std::string, const Json*> by_name;
  for (const Json& one : results) by_name[one["cell"].get<std::string>()] = &one;
  std::printf("%-24s", "stopped at");
  for (const Fault fault : all_faults())
    std::printf(" %-12s", std::string(to_string(fault)).c_str());
  std::printf("\n");
  for (const PausePoint point : all_pause_points()) {
    std::printf("%-24s", std::string(to_string(point)).c_str());
    for (const Fault fault : all_faults()) {
      const auto found = by_name.find(name_of({point, fault}));
      const char* word = "-";
      if (found != by_name.end()) word = (*found->second)["complaints"].empty() ? "ok" : "FAIL";
      std::printf(" %-12s", word);
    }
    std::printf("\n");
  }
}

double greatest(const std::vector<Json>& results, const char* key) {
  double most = 0;
  for (const Json& one : results) most = std::max(most, one.value(key, 0.0));
  return most;
}

int run_matrix(const Options& options) {
  const std::vector<std::string> names = chosen_cells(options);
  if (names.empty()) {
    std::fprintf(stderr, "orlop_matrix: no cell has '%s' in its name\n", options.only.c_str());
    return 2;
  }
  const MonoNs begun = monotonic_ns();
  const std::vector<Json> results = run_cells(names, options);
  const auto failures =
      std::ranges::count_if(results, [](const Json& one) { return !one["complaints"].empty(); });
  const double reclaim = greatest(results, "reclaim_ms");
  const double call = greatest(results, "longest_call_ms");
  if (options.json) {
    Json failed = Json::array();
    for (const Json& one : results) {
      if (!one["complaints"].empty())
        failed.push_back({{"cell", one["cell"]}, {"complaints", one["complaints"]}});
    }
    const Json json = {{"cells", names.size()},    {"failures", failures},
                       {"of", all_cells().size()}, {"slowest_reclaim_ms", reclaim},
                       {"longest_call_ms", call},  {"failed", failed}};
    std::printf("%s\n", json.dump(2).c_str());
  } else {
    print_table(results);
    std::printf(
        "%zu cells of %zu, %zu failures in %s; slowest reclaim %.0f ms, longest call of the "
        "witness %.0f ms (its deadline: 500 ms)\n",
        names.size(), all_cells().size(), static_cast<std::size_t>(failures),
        format_duration_ns(monotonic_ns() - begun).c_str(), reclaim, call);
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace orlop::matrix

int main(int argc, char** argv) {
  using namespace orlop::matrix;
  Options options;
  CLI::App app("Crash matrix: pause points x faults on a real host");
  app.add_option("--cells", options.cells, "run so many, chosen by --rotate; default: all");
  app.add_option("--rotate", options.rotate, "any text, e.g. the commit's id");
  app.add_option("--only", options.only, "cells with this in their name (POINT/FAULT)");
  app.add_option("--jobs", options.jobs, "cells at a time");
  app.add_option("--stop-ms", options.stop_ms, "how long a stopped process stands still");
  app.add_option("--reclaim-ms", options.reclaim_ms,
                 "limit for giving back a dead client's memory");
  app.add_option("--skip", options.skip, "with --one: arrivals at the point that pass");
  app.add_option("--one", options.one, "one cell, here; its result as a line of JSON");
  app.add_flag("--full", options.full, "every cell, whatever --cells says");
  app.add_flag("--json", options.json, "the result as JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return options.one.empty() ? run_matrix(options) : run_one(options);
}
