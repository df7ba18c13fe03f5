// SPDX-License-Identifier: Apache-2.0
#include "batch.h"

#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "must_reach.h"

namespace orlop::simulation {
namespace {

// Which seed comes next, as the plan has it.
class Seeds {
 public:
  explicit Seeds(const BatchPlan& plan) : plan_(plan) {}
  std::optional<std::uint64_t> next() {
    if (listed_ < plan_.seeds.size()) return plan_.seeds[listed_++];
    const bool over =
        plan_.until ? std::chrono::steady_clock::now() >= *plan_.until : counted_ == plan_.count;
    if (over) return std::nullopt;
    return plan_.first + counted_++;
  }

 private:
  const BatchPlan& plan_;
  std::size_t listed_ = 0;
  std::uint64_t counted_ = 0;
};

void take(Finding finding, Batch& batch) {
  ++batch.seeds;
  for (const auto& [name, count] : finding.reached) batch.reached[name] += count;
  if (finding.failed) batch.failures.push_back(std::move(finding));
}

}  // namespace

Batch run_batch(const BatchPlan& plan) {
  Batch batch;
  Seeds seeds(plan);
  std::map<pid_t, IsolatedRun> running;
  for (;;) {
    while (running.size() < plan.jobs && batch.failures.size() < kMostFailures) {
      const std::optional<std::uint64_t> seed = seeds.next();
      if (!seed) break;
      IsolatedRun run(*seed);
      const pid_t pid = run.pid();
      running.emplace(pid, std::move(run));
    }
    if (running.empty()) break;
    int status = 0;
    const auto over = running.find(waitpid(-1, &status, 0));
    if (over == running.end()) continue;
    take(over->second.finding(status), batch);
    running.erase(over);
  }
  std::sort(batch.failures.begin(), batch.failures.end(),
            [](const Finding& a, const Finding& b) { return a.seed < b.seed; });
  return batch;
}

std::vector<std::string_view> Batch::missing() const {
  std::vector<std::string_view> names;
  if (seeds < kSeedsThatReachAll) return names;
  std::copy_if(kMustBeReached.begin(), kMustBeReached.end(), std::back_inserter(names),
               [this](std::string_view name) { return !reached.contains(std::string(name)); });
  return names;
}

}  // namespace orlop::simulation
