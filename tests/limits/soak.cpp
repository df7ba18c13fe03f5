// SPDX-License-Identifier: Apache-2.0
#include "soak.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "platform/clock.h"

namespace orlop::soak {

using limits_test::Footprint;
using limits_test::footprint_of;
using matrix::Fault;
using matrix::Provocation;

namespace {

constexpr MonoNs kLook = 2 * kNsPerMs;
constexpr MonoNs kSampleEvery = kNsPerSecond;
// How long the host is left in peace before the next fault, and how long a fault lasts, at most.
constexpr MonoNs kPeace = 2 * kNsPerSecond;
constexpr MonoNs kLongestStop = 5 * kNsPerSecond;
// A place that nobody comes by in this time is given up.
constexpr MonoNs kReachLimit = 3 * kNsPerSecond;
constexpr std::uint32_t kSkips = 20;  // arrivals that pass, at most
constexpr std::uint64_t kHitsMeanwhile = 200;
constexpr std::uint64_t kPatienceNs = matrix::kPatienceSeconds * kNsPerSecond;
// A second sample of the same process, so that a line through them means something.
constexpr std::size_t kFewestSamples = 8;

// How far the least-squares line through the values rises from its first to its last second.
double rise_of_line(const std::vector<std::pair<double, double>>& points) {
  if (points.size() < kFewestSamples) return 0;
  double x = 0, y = 0;
  for (const auto& [at, value] : points) {
    x += at / static_cast<double>(points.size());
    y += value / static_cast<double>(points.size());
  }
  double covariance = 0, variance = 0;
  for (const auto& [at, value] : points) {
    covariance += (at - x) * (value - y);
    variance += (at - x) * (at - x);
  }
  return variance == 0 ? 0 : covariance / variance * (points.back().first - points.front().first);
}

}  // namespace

Soak::Soak(std::uint64_t seed, MonoNs length)
    : host_(result_.complaints), rng_(seed), length_(length) {
  result_.seed = seed;
}

SoakResult Soak::run() {
  begun_ = next_sample_ = monotonic_ns();
  if (begin()) {
    while (sound() && monotonic_ns() - begun_ < length_) {
      pass(rng_.uniform(kPeace));
      come_and_go();
      fault();
    }
    if (sound()) end();
  }
  result_.minutes =
      static_cast<double>(monotonic_ns() - begun_) / static_cast<double>(60 * kNsPerSecond);
  judge_growth();
  if (!sound()) result_.log = host_.log();
  return std::move(result_);
}

bool Soak::begin() {
  host_.start_node();
  if (!host_.await_serving()) return false;
  keeper_descriptors_ = footprint_of(host_.daemon().keeper_pid()).descriptors;
  server_descriptors_ = footprint_of(server_pid()).descriptors;
  node_answers_ = true;
  return host_.start_witness() && host_.start_victim();
}

// A short life besides the two, that ends by a kill.
void Soak::come_and_go() {
  if (!sound()) return;
  if (rng_.uniform(2) == 0) {
    event_ = "visitor";
    (void)host_.start_visitor();
  } else {
    host_.kill_visitor();
  }
}

void Soak::fault() {
  if (!sound()) return;
  const auto points = all_pause_points();
  const PausePoint point = points[rng_.uniform(points.size())];
  const auto faults = matrix::all_faults();
  const Fault fault = faults[rng_.uniform(faults.size())];
  const auto stopped = stand_at(point);
  if (!stopped) return;
  ++result_.faults;
  event_ = std::string(to_string(point)) + "/" + std::string(to_string(fault));
  matrix::strike(host_, fault, *stopped);
  const std::uint64_t hits = host_.witness()->report().hits;
  // The witness itself is never stopped: its hits need nobody who lives.
  wait("the witness' hits go on while the fault lasts",
       [&] { return host_.witness()->report().hits >= hits + kHitsMeanwhile; });
  if (fault == Fault::kStop) pass(rng_.uniform(kLongestStop));
  matrix::release(host_, fault, *stopped);
  recover(fault);
  node_answers_ = true;
}

std::optional<pid_t> Soak::stand_at(PausePoint point) {
  const Provocation provocation = matrix::provocation_of(point);
  if (provocation == Provocation::kFirstStart) return std::nullopt;  // a node's first second
  if (!matrix::prepare(host_, provocation)) return std::nullopt;
  const bool by_itself = provocation == Provocation::kNone;
  // Whoever is asked may stand at the point before it is seen there, and the sample would wait for
  // it.
  node_answers_ = false;
  host_.pauses().arm(point, by_itself ? static_cast<std::uint32_t>(rng_.uniform(kSkips)) : 0);
  matrix::provoke(host_, provocation);
  std::optional<pid_t> stopped;
  const MonoNs deadline = monotonic_ns() + kReachLimit;
  while (!stopped && monotonic_ns() < deadline) {
    sample_if_due();
    stopped = host_.pauses().wait_stopped(monotonic_ns() + kLook);
  }
  if (!stopped) {
    host_.pauses().let_go();
    node_answers_ = true;
  }
  return stopped;
}

// Everybody is back and makes progress.
void Soak::recover(Fault fault) {
  if (fault == Fault::kKillKeeper) host_.start_node();
  if (!wait("a server serves", [&] { return host_.metric("orlop_uptime_seconds") >= 0; })) return;
  if (host_.victim() == nullptr || host_.victim()->over()) {
    if (host_.victim() != nullptr) host_.complain("the victim ended by itself");
    if (!host_.start_victim()) return;
  }
  const auto& victim = host_.victim()->report();
  const std::uint64_t stored = victim.stored;
  wait("the victim stores again", [&] { return victim.stored > stored; });
  if (victim.wrong != 0) host_.complain("the victim read wrong values");
  if (host_.witness()->over()) host_.complain("the witness ended by itself");
}

void Soak::end() {
  event_ = "end";
  host_.kill_visitor();
  (void)host_.check_contents();
  const auto& witness = host_.witness()->report();
  result_.hits = witness.hits;
  result_.wrong = witness.wrong;
  result_.longest_call_ms =
      static_cast<double>(witness.longest_call_ns) / static_cast<double>(kNsPerMs);
  const auto settled = [&] {
    return footprint_of(host_.daemon().keeper_pid()).descriptors <= keeper_descriptors_ &&
           footprint_of(server_pid()).descriptors <= server_descriptors_;
  };
  host_.leave_clients();
  wait("keeper and server have as many descriptors as before the first client", settled);
  next_sample_ = 0;
  sample_if_due();
  host_.stop_node();
}

void Soak::pass(MonoNs time) {
  const MonoNs until = monotonic_ns() + time;
  while (monotonic_ns() < until) {
    sample_if_due();
    std::this_thread::sleep_for(std::chrono::nanoseconds(kLook));
  }
}

bool Soak::wait(const std::string& what, const std::function<bool()>& holds) {
  const MonoNs deadline = monotonic_ns() + kPatienceNs;
  while (!holds()) {
    if (monotonic_ns() >= deadline) {
      host_.complain("not within " + std::to_string(matrix::kPatienceSeconds) + " s: " + what);
      return false;
    }
    pass(kLook);
  }
  return true;
}

pid_t Soak::server_pid() const {
  const auto children = host_.children_of_keeper();
  return children.empty() ? 0 : children.front();
}

void Soak::sample_if_due() {
  const MonoNs now = monotonic_ns();
  if (now < next_sample_) return;
  Sample sample;
  sample.seconds = static_cast<double>(now - begun_) / static_cast<double>(kNsPerSecond);
  sample.event = std::exchange(event_, {});
  sample.keeper = footprint_of(host_.daemon().keeper_pid());
  if (const pid_t server = server_pid(); server != 0) sample.server = footprint_of(server);
  if (host_.witness() != nullptr && host_.witness()->pid() != 0) {
    const auto& report = host_.witness()->report();
    sample.witness = footprint_of(host_.witness()->pid());
    const std::uint64_t hits = report.hits;
    const double passed =
        result_.samples.empty() ? 1 : sample.seconds - result_.samples.back().seconds;
    sample.hits_a_second =
        static_cast<double>(hits - std::exchange(hits_before_, hits)) / std::max(passed, 0.001);
    sample.wrong = report.wrong;
  }
  if (node_answers_) {
    const auto metrics = host_.daemon().metrics();
    const auto value = [&](const char* name) {
      const auto found = metrics.find(name);
      return found == metrics.end() ? 0 : found->second;
    };
    sample.answered = !metrics.empty();
    sample.pinned_groups = value("orlop_pinned_groups");
    sample.free_slots = value("orlop_slots{state=\"free\"}");
    sample.committed_slots = value("orlop_slots{state=\"committed\"}");
    sample.clients = value("orlop_clients_known");
    sample.restarts = value("orlop_server_restarts_total");
  }
  result_.samples.push_back(std::move(sample));
  next_sample_ = now + kSampleEvery;
}

void Soak::judge_growth() {
  const double from = result_.samples.empty() ? 0 : result_.samples.back().seconds / 4;
  const auto growth = [&](Footprint Sample::* process) {
    std::vector<std::pair<double, double>> points;
    for (const Sample& one : result_.samples) {
      const auto resident = (one.*process).resident_kib;
      if (one.seconds >= from && resident != 0)
        points.emplace_back(one.seconds, static_cast<double>(resident));
    }
    return rise_of_line(points);
  };
  const auto judge = [&](const char* who, double rise) {
    if (rise > kGrowthLimitKib)
      host_.complain(std::string(who) + " grew by " + std::to_string(rise) + " KiB");
  };
  judge("the keeper", result_.keeper_growth_kib = growth(&Sample::keeper));
  judge("the server", result_.server_growth_kib = growth(&Sample::server));
  judge("the witness", result_.witness_growth_kib = growth(&Sample::witness));
}

}  // namespace orlop::soak
