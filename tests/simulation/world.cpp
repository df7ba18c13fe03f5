// SPDX-License-Identifier: Apache-2.0
#include "world.h"

#include "base/check.h"
#include "base/sometimes.h"
#include "orlop/namespace.h"
#include "segment/key_id.h"
#include "sim_client.h"
#include "sim_keeper.h"

namespace orlop::simulation {

namespace {
constexpr unsigned kDeepest = 3;         // steps inside steps
constexpr unsigned kMostOthersLog2 = 8;  // steps inside one interruption
constexpr unsigned kSoonLog2 = 9;        // or within 2^9, where it matters most
constexpr unsigned kAccessesLog2 = 11;   // an interruption or a kill comes within 2^11 accesses
}  // namespace

World::World(const Options& chosen) : options(chosen), rng(chosen.seed ^ 0x6f726c6f70) {
  begin_segment();
  keeper = std::make_unique<SimKeeper>(*this);
  describe_namespaces();
  for (std::uint32_t i = 0; i < options.clients; ++i)
    clients.push_back(std::make_unique<SimClient>(*this, i));
}

World::~World() = default;

void World::describe_namespaces() {
  for (std::uint32_t ns = 0; ns < options.namespaces(); ++ns) {
    NamespaceDescriptor descriptor;
    descriptor.engine = "sim";
    descriptor.layout = "sim-1";
    descriptor.model = ns < options.ranks ? "first" : "second";
    descriptor.revision = "1";
    descriptor.dtype = "u8";
    descriptor.page_tokens = 16;
    descriptor.value_len = options.value_len[ns];
    descriptor.layers = 1;
    descriptor.heads = kMostRanks;
    descriptor.tp_size = ns < options.ranks ? options.ranks : 1;
    descriptor.tp_rank = ns < options.ranks ? ns : 0;
    const std::string text = canonical_text(descriptor).value();
    namespaces_.push_back({text, segment::digest_of(text).lo});
  }
}

// One page has one key on all ranks of a family.
KeyId World::key(std::uint32_t ns, std::uint32_t number) const {
  std::uint64_t state = (std::uint64_t{ns < options.ranks ? 1U : 2U} << 32) + number;
  const std::uint64_t lo = splitmix64(state);
  return {lo, splitmix64(state)};
}

void World::begin_segment() {
  if (!segments_.empty()) segment().gone = true;
  const SegmentId id{segments_.size() + 7};
  segments_.push_back(
      std::make_unique<SimSegment>(id, options.capacity, options.max_value_len, verdict));
}

std::uint32_t World::namespace_of(std::uint64_t digest) const {
  for (std::uint32_t ns = 0; ns < options.namespaces(); ++ns)
    if (namespaces_[ns].digest == digest) return ns;
  CHECK(false, "the node names a namespace that nobody opened");
  return 0;
}

void World::step() {
  move_clock();
  step_somebody();
}

void World::move_clock() {
  if (calm_) stalled_steps_ = 0;
  if (stalled_steps_ > 0) {
    --stalled_steps_;
    return;
  }
  now += rng.uniform(500 * kNsPerUs);
  if (fault(options.long_pause)) {
    // Mostly over a deadline; now and then over all of them, and round the coarse clock of rows.
    now += roll(100) ? rng.uniform(100 * 3'600 * kNsPerSecond)
                     : rng.between(100 * kNsPerMs, 20 * kNsPerSecond);
    note("time jumps");
  }
  if (fault(options.long_stall)) stalled_steps_ = rng.uniform(300);
}

void World::step_somebody() {
  const std::uint64_t who = rng.uniform(100);
  if (who < 10) return keeper->step();
  if (who < 50) return keeper->step_server();
  SimClient& client = *clients[rng.uniform(clients.size())];
  if (who < 65) return client.step_device();
  client.step();
}

bool World::may_run(Process& process, std::uint32_t killed, std::uint32_t paused) {
  if (!process.alive || process.running || now < process.stopped_until) return false;
  if (fault(paused)) {
    process.stopped_until = now + rng.between(kNsPerMs, 2 * kNsPerSecond);
    return false;
  }
  // Small numbers as often as large ones: most windows are a few accesses wide.
  const auto within = [this] {
    return rng.uniform(std::uint64_t{1} << rng.uniform(kAccessesLog2));
  };
  // A kill waits for its store over several steps, so that it falls into the middle of one.
  if (calm_) process.stores_left = Process::kNoLimit;
  if (fault(killed) && process.stores_left == Process::kNoLimit) process.stores_left = within();
  if (depth_ < kDeepest && fault(options.nested)) process.loads_until_others = within();
  return true;
}

void World::interrupt_soon(Process& process) {
  if (depth_ < kDeepest && fault(options.nested))
    process.loads_until_others = rng.uniform(std::uint64_t{1} << rng.uniform(kSoonLog2));
}

void World::stored(const void* address, std::uint64_t before, std::uint64_t after) {
  trace.mix(after);
  // Old ones too: nobody may write into them.
  for (const auto& one : segments_) one->slots.stored(address, before, after);
}

void World::others_run_inside(Process&) {
  segment::AtomicHooks* const hooks = segment::g_atomic_hooks;
  segment::g_atomic_hooks = nullptr;
  ++depth_;
  SOMETIMES(true, "sim: others run inside a step");
  SOMETIMES(depth_ == kDeepest, "sim: three steps inside each other");
  // Mostly a few steps; now and then time enough for a slot to be freed, given out and committed.
  for (std::uint64_t left = rng.uniform(std::uint64_t{2} << rng.uniform(kMostOthersLog2));
       left > 0 && !verdict.failed(); --left)
    step_somebody();
  --depth_;
  segment::g_atomic_hooks = hooks;
}

}  // namespace orlop::simulation
