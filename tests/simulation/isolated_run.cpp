// SPDX-License-Identifier: Apache-2.0
#include "isolated_run.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <sstream>
#include <string>
#include <system_error>

#include "base/sometimes.h"
#include "simulation.h"

namespace orlop::simulation {

// Memory that the child writes and the parent reads when the child is gone: no pipe to be drained.
class IsolatedRun::Scratch {
 public:
  explicit Scratch(const char* name) : fd_(memfd_create(name, MFD_CLOEXEC)) {
    if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "memfd_create");
  }
  ~Scratch() { close(fd_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  int fd() const { return fd_; }
  std::string contents() const {
    std::string all;
    char piece[4096];
    for (off_t at = 0;; at = static_cast<off_t>(all.size())) {
      const ssize_t got = pread(fd_, piece, sizeof piece, at);
      if (got <= 0) return all;
      all.append(piece, static_cast<std::size_t>(got));
    }
  }

 private:
  int fd_;
};

namespace {

// First words of the lines in which the child says what it found.
constexpr std::string_view kHash = "hash ", kReached = "reached ", kOracle = "oracle ",
                           kMessage = "message ", kText = "text";

[[noreturn]] void run_in_child(std::uint64_t seed, PlantedBug bug, int result, int narration) {
  dup2(narration, STDERR_FILENO);
  const rlimit cpu{kMostCpuSeconds, kMostCpuSeconds + 5};
  setrlimit(RLIMIT_CPU, &cpu);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  g_planted_bug = bug;
  sometimes_reset();
  print_run_on_abort();
  const Report report = run_simulation(seed);
  std::ostringstream out;
  out << kHash << report.trace_hash << '\n';
  for (const auto& [name, count] : sometimes_counts())
    out << kReached << count << ' ' << name << '\n';
  if (report.failure) {
    out << kOracle << to_string(report.failure->oracle) << '\n'
        << kMessage << report.failure->message << '\n'
        << kText << '\n'
        << report.text;
  }
  const std::string all = out.str();
  if (write(result, all.data(), all.size()) != static_cast<ssize_t>(all.size())) _exit(3);
  _exit(0);
}

void read_result(const std::string& result, Finding& finding) {
  std::istringstream in(result);
  for (std::string line; std::getline(in, line);) {
    const std::string_view view = line;
    if (view.starts_with(kHash)) finding.trace_hash = std::stoull(line.substr(kHash.size()));
    if (view.starts_with(kReached)) {
      const std::size_t space = line.find(' ', kReached.size());
      finding.reached[line.substr(space + 1)] = std::stoull(line.substr(kReached.size()));
    }
    if (view.starts_with(kOracle)) {
      finding.failed = true;
      finding.oracle = oracle_from_name(view.substr(kOracle.size())).value();
    }
    if (view.starts_with(kMessage)) finding.message = line.substr(kMessage.size());
    if (view != kText) continue;
    finding.text = result.substr(static_cast<std::size_t>(in.tellg()));
    return;
  }
}

// The child did not come to the end of its run.
void read_death(int status, const std::string& narration, Finding& finding) {
  finding.failed = true;
  finding.text = narration;
  finding.oracle = Oracle::kCrash;
  const std::size_t check = narration.find("CHECK failed");
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) {
    finding.oracle = Oracle::kHang;
    finding.message = "no end after " + std::to_string(kMostCpuSeconds) + " s of CPU time";
  } else if (check != std::string::npos) {
    finding.oracle = Oracle::kCheck;
    finding.message = narration.substr(check, narration.find('\n', check) - check);
  } else {
    finding.message = WIFSIGNALED(status)
                          ? "the run died of signal " + std::to_string(WTERMSIG(status))
                          : "the run ended with status " + std::to_string(WEXITSTATUS(status));
  }
}

}  // namespace

IsolatedRun::IsolatedRun(std::uint64_t seed, PlantedBug bug)
    : seed_(seed),
      result_(std::make_unique<Scratch>("result")),
      narration_(std::make_unique<Scratch>("narration")) {
  std::fflush(nullptr);  // else the child writes it again
  pid_ = fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ == 0) run_in_child(seed, bug, result_->fd(), narration_->fd());
}

IsolatedRun::~IsolatedRun() = default;
IsolatedRun::IsolatedRun(IsolatedRun&&) noexcept = default;

Finding IsolatedRun::finding(int status) const {
  Finding finding;
  finding.seed = seed_;
  read_result(result_->contents(), finding);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    read_death(status, narration_->contents(), finding);
  return finding;
}

Finding run_isolated(std::uint64_t seed, PlantedBug bug) {
  const IsolatedRun run(seed, bug);
  int status = 0;
  while (waitpid(run.pid(), &status, 0) < 0 && errno == EINTR) {
  }
  return run.finding(status);
}

Search search_seeds(std::uint64_t first, std::uint64_t most, PlantedBug bug) {
  Search search;
  while (search.seeds < most && !search.finding.failed)
    search.finding = run_isolated(first + search.seeds++, bug);
  return search;
}

}  // namespace orlop::simulation
