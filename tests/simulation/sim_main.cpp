// SPDX-License-Identifier: Apache-2.0
// `./dev sim`: searches seeds, or shows one. Exit status: 0 clean, 1 found something, 2 wrong
// usage.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>

#include "batch.h"
#include "options.h"

namespace orlop::simulation {
namespace {

struct Asked {
  std::uint64_t seed = 0;  // 0: many
  std::uint64_t seeds = 2'000;
  std::uint64_t first = 1;
  std::string base;  // commit id; else `first`
  double minutes = 0;
  unsigned jobs = std::max(1U, std::thread::hardware_concurrency());
  std::string list;
  bool json = false;
  bool states = false;
};

// Seeds that once failed: a number a line, '#' begins a comment.
std::vector<std::uint64_t> seeds_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<std::uint64_t> seeds;
  for (std::string line; std::getline(file, line);) {
    line.resize(std::min(line.size(), line.find('#')));
    if (line.find_first_not_of(" \t") != std::string::npos) seeds.push_back(std::stoull(line));
  }
  return seeds;
}

// A whole commit id does not fit: its first 12 digits say as much.
std::uint64_t first_of(const Asked& asked) {
  return asked.base.empty() ? asked.first : std::stoull(asked.base.substr(0, 12), nullptr, 16);
}

void print_failure(const Finding& finding) {
  std::fprintf(stderr, "seed %llu: %s: %s\n%s\n", static_cast<unsigned long long>(finding.seed),
               std::string(to_string(finding.oracle)).c_str(), finding.message.c_str(),
               finding.text.c_str());
}

nlohmann::json as_json(const std::vector<Finding>& failures) {
  nlohmann::json all = nlohmann::json::array();
  for (const Finding& one : failures)
    all.push_back(
        {{"seed", one.seed}, {"oracle", to_string(one.oracle)}, {"message", one.message}});
  return all;
}

int show(const Asked& asked) {
  std::printf("%s\n", Options::from_seed(asked.seed).text().c_str());
  std::fflush(stdout);
  const Finding finding = run_isolated(asked.seed);
  if (finding.failed) {
    print_failure(finding);
    return 1;
  }
  std::printf("clean, trace %016llx\n", static_cast<unsigned long long>(finding.trace_hash));
  return 0;
}

int search(const Asked& asked) {
  BatchPlan plan{.first = first_of(asked), .count = asked.seeds, .jobs = asked.jobs};
  if (!asked.list.empty()) plan.seeds = seeds_of(asked.list);
  const auto begun = std::chrono::steady_clock::now();
  if (asked.minutes > 0)
    plan.until = begun + std::chrono::milliseconds(static_cast<long>(asked.minutes * 60'000));
  const Batch batch = run_batch(plan);
  const std::vector<std::string_view> missing = batch.missing();
  for (const Finding& one : batch.failures) print_failure(one);
  if (asked.json) {
    const nlohmann::json out = {{"seeds", batch.seeds},
                                {"failures", as_json(batch.failures)},
                                {"sometimes_missing", missing}};
    std::cout << out.dump() << '\n';
  } else {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    std::printf("%llu seeds from %llu in %.1f s: %zu failures\n",
                static_cast<unsigned long long>(batch.seeds),
                static_cast<unsigned long long>(plan.first), took.count(), batch.failures.size());
    for (const auto& [name, count] : batch.reached)
      if (asked.states)
        std::printf("%9llu  %s\n", static_cast<unsigned long long>(count), name.c_str());
    for (const std::string_view name : missing)
      std::printf("no seed reached: %s\n", std::string(name).c_str());
  }
  return batch.failures.empty() && missing.empty() ? 0 : 1;
}

int run(int argc, char** argv) {
  Asked asked;
  CLI::App app("searches random worlds for broken promises (docs/protocol/simulation.md)", "sim");
  app.add_option("--seed", asked.seed, "show and run this world alone");
  app.add_option("--seeds", asked.seeds, "how many to run")->capture_default_str();
  app.add_option("--minutes", asked.minutes, "run as many as this allows instead");
  app.add_option("--first", asked.first, "the first seed")->capture_default_str();
  app.add_option("--base", asked.base, "the first seed, from a commit id")
      ->check(CLI::Validator(
          [](const std::string& text) {
            const bool hex = text.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
            return hex ? std::string() : "not a commit id: " + text;
          },
          "HEX"));
  app.add_option("--jobs", asked.jobs, "processes at once")->check(CLI::Range(1, 1024));
  app.add_option("--list", asked.list, "seeds to run first: a file with a number a line");
  app.add_flag("--states", asked.states, "how often each rare state was reached");
  app.add_flag("--json", asked.json, "for machines, on stdout");
  CLI11_PARSE(app, argc, argv);
  return asked.seed != 0 ? show(asked) : search(asked);
}

}  // namespace
}  // namespace orlop::simulation

int main(int argc, char** argv) {
  try {
    return orlop::simulation::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sim: %s\n", error.what());
    return 2;
  }
}
