// SPDX-License-Identifier: Apache-2.0
// Cost of the node machine alone, no rings, no data:
//   node_machine_bench            put_start + put_commit of 128 new keys, evicting and not
//   node_machine_bench SLOTS      recovery of that many committed slots
// Prints medians and bests; on a shared machine only the best says what the code costs.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/sparse_array.h"
#include "orlop/namespace.h"
#include "protocol/node/node_machine.h"

namespace orlop::protocol {
namespace {

constexpr std::uint32_t kBatch = 128;

class Memory {
 public:
  explicit Memory(std::uint64_t bytes) : bytes_(bytes), memory_(bytes + kPageBytes) {}
  std::span<std::byte> span() {
    const auto at = reinterpret_cast<std::uintptr_t>(&memory_[0]);
    return {&memory_[align_up(at, kPageBytes) - at], bytes_};
  }

 private:
  std::uint64_t bytes_;
  SparseArray<std::byte> memory_;
};

MonoNs clock_ns() {
  return static_cast<MonoNs>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                 std::chrono::steady_clock::now().time_since_epoch())
                                 .count());
}

MonoNs cpu_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<MonoNs>(t.tv_sec) * kNsPerSecond + static_cast<MonoNs>(t.tv_nsec);
}

// One client, one namespace of 4 KiB values.
class Bench {
 public:
  Bench(std::uint64_t capacity, std::uint64_t reserve)
      : geometry_(*segment::make_geometry(capacity, 64 * kKiB)),
        control_(geometry_.control_bytes),
        area_(segment::ControlArea::format(control_.span(), geometry_, SegmentId{1})),
        channel_geometry_(*segment::make_channel_geometry({})),
        channel_(channel_geometry_.total_bytes),
        view_(segment::ChannelView::format(channel_.span(), channel_geometry_, {}, client_)) {
    config_.reserve_bytes = reserve;
    node_ = *NodeMachine::cold(area_, config_, Incarnation{1}, now_);
    node_->step(event::ClientAttached{client_, view_, "bench"}, now_, effects_);
    NamespaceDescriptor d;
    d.engine = d.layout = d.model = d.revision = d.dtype = "bench";
    d.page_tokens = 16;
    d.value_len = 4'096;
    const std::string text = *canonical_text(d);
    node_->step(event::OpenNamespace{client_, RequestId{1}, text}, now_, effects_);
  }

  // ns of put_start + put_commit of fresh keys; background work apart.
  MonoNs put(MonoNs* background) {
    std::vector<KeyId> keys(kBatch);
    for (KeyId& key : keys) key = {rng_.next(), rng_.next()};
    const PutId put = make_put_id(client_, ++sequence_);
    std::vector<CommitEntry> entries(kBatch);
    effects_.clear();
    const MonoNs before = clock_ns();
    node_->put_start({client_, RequestId{2}, put, NamespaceRow{0}, 4'096, 0, keys, {}, {}}, now_,
                     effects_);
    for (std::uint32_t i = 0; i < kBatch; ++i)
      entries[i] = {effects_.grants[i].slot, effects_.grants[i].generation, i};
    effects_.clear();
    node_->put_commit({client_, RequestId{3}, put, entries}, now_, effects_);
    const MonoNs after = clock_ns();
    CHECK(effects_.outcomes[kBatch - 1] == Outcome::kStored);
    while (node_->wants_background()) run_background();
    *background = clock_ns() - after;
    now_ += kNsPerMs;
    return after - before;
  }

  void recover() {
    node_.reset();
    RecoveryReport report;
    const MonoNs before = clock_ns(), cpu_before = cpu_ns();
    node_ = *NodeMachine::recover(area_, config_, Incarnation{2}, {{client_, view_, "bench"}}, now_,
                                  &report);
    const double ms = static_cast<double>(clock_ns() - before) / 1e6;
    std::printf("recovery of %llu slots: %.1f ms, of this thread's time %.1f ms\n",
                static_cast<unsigned long long>(report.slots_kept), ms,
                static_cast<double>(cpu_ns() - cpu_before) / 1e6);
  }

 private:
  void run_background() {
    effects_.clear();
    node_->run_background(now_, effects_);
    for (const PunchIndexPlace& punch : effects_.punch) {
      auto* place = reinterpret_cast<std::byte*>(area_.index_place(punch.place));
      std::fill_n(place, geometry_.index_place_bytes, std::byte{0});
      node_->index_place_punched(punch.place);
    }
  }

  const ClientId client_{1};
  segment::Geometry geometry_;
  Memory control_;
  segment::ControlArea area_;
  segment::ChannelGeometry channel_geometry_;
  Memory channel_;
  segment::ChannelView view_;
  NodeConfig config_;
  MonoNs now_ = kNsPerSecond;
  std::unique_ptr<NodeMachine> node_;
  NodeEffects effects_;
  Rng rng_{1};
  std::uint32_t sequence_ = 0;
};

void measure(const char* name, Bench& bench, int puts) {
  std::vector<MonoNs> times, background;
  for (int i = 0; i < puts; ++i) {
    MonoNs after = 0;
    times.push_back(bench.put(&after));
    background.push_back(after);
  }
  std::sort(times.begin(), times.end());
  std::sort(background.begin(), background.end());
  std::printf("%-28s best %.2f us, median %.2f us; background median %.2f us\n", name,
              static_cast<double>(times.front()) / 1e3,
              static_cast<double>(times[times.size() / 2]) / 1e3,
              static_cast<double>(background[background.size() / 2]) / 1e3);
}

int run(int argc, char** argv) {
  if (argc > 1) {
    const std::uint64_t slots = std::strtoull(argv[1], nullptr, 10);
    Bench bench(slots * 4'096 + kGiB, 1);
    MonoNs ignored = 0;
    for (std::uint64_t i = 0; i < slots; i += kBatch) bench.put(&ignored);
    for (int i = 0; i < 5; ++i) bench.recover();
    return 0;
  }
  Bench roomy(8 * kGiB, 1);
  measure("128 keys, free memory", roomy, 4'000);
  Bench full(256 * kMiB, 8 * kMiB);
  measure("128 keys, filling", full, 512);
  measure("128 keys, reserve refilled", full, 4'000);
  Bench tight(256 * kMiB, 1);
  measure("128 keys, filling", tight, 512);
  measure("128 keys, evicting inline", tight, 4'000);
  return 0;
}

}  // namespace
}  // namespace orlop::protocol

int main(int argc, char** argv) {
  return orlop::protocol::run(argc, argv);
}
