// SPDX-License-Identifier: Apache-2.0
// A client process of the crash matrix: orlop_matrix_worker ROLE SOCKET.
//   witness   keeps a set of pages, reads them all the time, now and then puts others
//   victim    puts groups, reads them back, detaches and attaches again; may be paused and killed
//   visitor   attaches, leaves a put open, and waits to be killed
// Its report page is descriptor kReportFd. Exit codes: 0 as ordered, 1 could not begin.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "orlop/client.h"
#include "platform/clock.h"
#include "platform/pause_point.h"
#include "worker.h"
#include "worker_report.h"

namespace orlop::matrix {
namespace {

constexpr std::size_t kKeptPages = 64;
constexpr std::size_t kGroup = 4;
constexpr std::size_t kFreshGroups = 24;     // keys rotate over so many groups
constexpr std::uint64_t kRoundsPerLife = 5;  // the victim then detaches

std::vector<std::byte> value_of(const std::string& key) {
  std::vector<std::byte> value(kWorkerValueLen);
  std::uint64_t seed = 1469598103934665603ULL;  // FNV-1a, for the same bytes in every process
  for (const char c : key) seed = (seed ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  Rng rng(seed);
  for (std::size_t i = 0; i < value.size(); ++i)
    value[i] = static_cast<std::byte>(rng.uniform(256));
  return value;
}

std::vector<std::string> group_keys(const std::string& prefix, std::size_t group) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < kGroup; ++i)
    keys.push_back(prefix + std::to_string(group) + "." + std::to_string(i));
  return keys;
}

class Worker {
 public:
  Worker(std::string role, std::string socket, SharedReport report)
      : role_(std::move(role)), socket_(std::move(socket)), report_(std::move(report)) {
    open();
  }

  int witness() {
    for (std::size_t group = 0; group < kKeptPages / kGroup && !stopped();) {
      if (put(group_keys("kept-", group))) ++group;
    }
    report_->kept = 1;
    for (std::size_t round = 0; !stopped(); ++round) {
      read(group_keys("kept-", round % (kKeptPages / kGroup)));
      if (round % 8 == 0) put(group_keys("fresh-", round / 8 % kFreshGroups));
      if (report_->order == Order::kVerify) verify();
      ++report_->rounds;
    }
    return end();
  }

  int victim() {
    for (std::size_t round = 0; !stopped(); ++round) {
      const auto keys = group_keys("victim-", round % kFreshGroups);
      (void)client_->remove(ns_, views(keys));
      put(keys);
      read(keys);
      ++report_->rounds;
      if (round % kRoundsPerLife == kRoundsPerLife - 1) {
        client_->close();
        open();
      }
    }
    return end();
  }

  int visitor() {
    const auto keys = group_keys("visitor-", 0);
    while (!stopped()) {
      auto plan = client_->put_start(ns_, views(keys));
      if (!plan || plan->prepared() == 0) continue;
      ++report_->rounds;
      while (!stopped()) ::usleep(1000);
    }
    return 0;
  }

 private:
  bool stopped() const { return report_->order == Order::kStop; }

  static std::vector<Key> views(const std::vector<std::string>& keys) {
    return {keys.begin(), keys.end()};
  }

  void open() {
    client_.emplace(ClientOptions{
        .socket = socket_, .name = role_, .call_budget = Milliseconds{kCallBudgetMs}});
    NamespaceDescriptor descriptor;
    descriptor.engine = "matrix";
    descriptor.layout = "flat-1";
    descriptor.model = role_;
    descriptor.revision = "r";
    descriptor.dtype = "u8";
    descriptor.page_tokens = 16;
    descriptor.value_len = kWorkerValueLen;
    auto opened = client_->open_namespace(descriptor);
    if (opened) ns_ = *opened;
  }

  template <class Call>
  auto timed(Call call) {
    const MonoNs before = monotonic_ns();
    auto result = call();
    const MonoNs took = monotonic_ns() - before;
    if (took > report_->longest_call_ns) report_->longest_call_ns = took;
    if (took > kCallLimitNs) ++report_->calls_over;
    return result;
  }

  // True: all of the group is stored.
  bool put(const std::vector<std::string>& keys) {
    PutOptions options;
    options.atomic_group_lens = {static_cast<std::uint32_t>(keys.size())};
    auto plan = timed([&] { return client_->put_start(ns_, views(keys), options); });
    if (!plan) return false;
    bool there = true;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      there &= plan->outcome(i) == Outcome::kExists;
      if (plan->outcome(i) == Outcome::kPrepared) (void)plan->copy_in(i, value_of(keys[i]));
    }
    if (plan->prepared() == 0) return there;
    const auto future = client_->put_commit(*plan);
    if (!future) return false;
    const auto outcomes = timed([&] { return future->wait(Milliseconds{kCallBudgetMs}); });
    if (!outcomes) return false;
    report_->stored += static_cast<std::uint64_t>(std::ranges::count(*outcomes, Outcome::kStored));
    return std::ranges::all_of(
        *outcomes, [](Outcome one) { return one == Outcome::kStored || one == Outcome::kExists; });
  }

  // How many of the group were read.
  std::size_t read(const std::vector<std::string>& keys) {
    auto handle = client_->get_start(ns_, views(keys));
    if (!handle) return 0;
    auto plan = client_->get_transfer(*handle);
    if (!plan) return 0;
    std::vector<std::byte> value(kWorkerValueLen);
    std::size_t read = 0;
    for (std::size_t i = 0; i < plan->size(); ++i) {
      const auto copied = plan->copy_out(i, value);
      if (!copied || !*copied) break;
      ++read;
      ++report_->hits;
      if (value != value_of(keys[i])) ++report_->wrong;
    }
    return read;
  }

  void verify() {
    std::size_t missing = 0;
    for (std::size_t group = 0; group < kKeptPages / kGroup; ++group)
      missing += kGroup - read(group_keys("kept-", group));
    report_->missing = missing;
    auto asked = Order::kVerify;
    report_->order.compare_exchange_strong(asked, Order::kRun);
    ++report_->verified;
  }

  int end() {
    const MonoNs deadline = monotonic_ns() + 20 * kNsPerSecond;
    while (!client_->flush(ns_) && monotonic_ns() < deadline) {
    }
    client_->close();
    return 0;
  }

  std::string role_, socket_;
  SharedReport report_;
  std::optional<Client> client_;
  Namespace ns_;
};

}  // namespace
}  // namespace orlop::matrix

int main(int argc, char** argv) {
  using namespace orlop;
  using namespace orlop::matrix;
  if (argc != 3) return 1;
  take_pause_page_from_environment();
  auto report = SharedReport::adopt(kReportFd);
  if (!report) {
    std::fprintf(stderr, "report page: %s\n", report.error().message.c_str());
    return 1;
  }
  const std::string role = argv[1];
  Worker worker(role, argv[2], std::move(*report));
  if (role == "witness") return worker.witness();
  if (role == "victim") return worker.victim();
  return worker.visitor();
}
