// SPDX-License-Identifier: Apache-2.0
#include "platform/pause_point.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/check.h"
#include "platform/clock.h"

namespace orlop {
namespace {

struct Named {
  PausePoint point;
  PauseProcess process;
  std::string_view name;
};

using enum PauseProcess;
constexpr std::array kNamed = {
    Named{PausePoint::kClientHello, kClient, "client_hello"},
    Named{PausePoint::kClientMapped, kClient, "client_mapped"},
    Named{PausePoint::kClientPutPosted, kClient, "client_put_posted"},
    Named{PausePoint::kClientPutGranted, kClient, "client_put_granted"},
    Named{PausePoint::kClientPutCopying, kClient, "client_put_copying"},
    Named{PausePoint::kClientCommitting, kClient, "client_committing"},
    Named{PausePoint::kClientCommitPosted, kClient, "client_commit_posted"},
    Named{PausePoint::kClientPinned, kClient, "client_pinned"},
    Named{PausePoint::kClientCopyingOut, kClient, "client_copying_out"},
    Named{PausePoint::kClientReleasing, kClient, "client_releasing"},
    Named{PausePoint::kClientDoorbell, kClient, "client_doorbell"},
    Named{PausePoint::kClientResuming, kClient, "client_resuming"},
    Named{PausePoint::kClientDetaching, kClient, "client_detaching"},
    Named{PausePoint::kServerStarting, kServer, "server_starting"},
    Named{PausePoint::kServerRecovered, kServer, "server_recovered"},
    Named{PausePoint::kServerServing, kServer, "server_serving"},
    Named{PausePoint::kServerAccepted, kServer, "server_accepted"},
    Named{PausePoint::kServerChannelMade, kServer, "server_channel_made"},
    Named{PausePoint::kServerKeeperAcked, kServer, "server_keeper_acked"},
    Named{PausePoint::kServerStepping, kServer, "server_stepping"},
    Named{PausePoint::kServerStepped, kServer, "server_stepped"},
    Named{PausePoint::kServerAnswered, kServer, "server_answered"},
    Named{PausePoint::kServerSleeping, kServer, "server_sleeping"},
    Named{PausePoint::kServerReclaiming, kServer, "server_reclaiming"},
    Named{PausePoint::kServerReclaimed, kServer, "server_reclaimed"},
    Named{PausePoint::kServerBackground, kServer, "server_background"},
    Named{PausePoint::kServerStopping, kServer, "server_stopping"},
    Named{PausePoint::kKeeperStarting, kKeeper, "keeper_starting"},
    Named{PausePoint::kKeeperSpawned, kKeeper, "keeper_spawned"},
    Named{PausePoint::kKeeperServing, kKeeper, "keeper_serving"},
    Named{PausePoint::kKeeperHolding, kKeeper, "keeper_holding"},
    Named{PausePoint::kKeeperHeld, kKeeper, "keeper_held"},
    Named{PausePoint::kKeeperDropping, kKeeper, "keeper_dropping"},
    Named{PausePoint::kKeeperServerEnded, kKeeper, "keeper_server_ended"},
    Named{PausePoint::kKeeperReloading, kKeeper, "keeper_reloading"},
    Named{PausePoint::kKeeperChecked, kKeeper, "keeper_checked"},
};
constexpr std::size_t kPoints = kNamed.size();

constexpr auto kPointList = [] {
  std::array<PausePoint, kPoints> points{};
  for (std::size_t i = 0; i < kPoints; ++i) points[i] = kNamed[i].point;
  return points;
}();
constexpr bool kInOrder = [] {
  for (std::size_t i = 0; i < kPoints; ++i) {
    if (static_cast<std::size_t>(kNamed[i].point) != i + 1) return false;
  }
  return true;
}();
static_assert(kInOrder, "the table is in the order of the enum, and complete up to its end");

const Named& named(PausePoint point) {
  const auto index = static_cast<std::size_t>(point);
  CHECK(index >= 1 && index <= kPoints);
  return kNamed[index - 1];
}

constexpr std::uint64_t kPageMagic = 0x31'65'73'75'61'70'6c'6fULL;  // "olpause1"
constexpr std::uint64_t kPageBytes = 4096;

using Word = std::atomic<std::uint32_t>;
static_assert(Word::is_always_lock_free);

// The kernel compares and sleeps in one; wakes for nothing are allowed.
void futex_wait(const Word& word, std::uint32_t expected, MonoNs deadline) {
  const MonoNs left = time_left(deadline, monotonic_ns());
  timespec limit{};
  limit.tv_sec = static_cast<time_t>(left / kNsPerSecond);
  limit.tv_nsec = static_cast<long>(left % kNsPerSecond);
  (void)::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &limit, nullptr, 0);
}

void futex_wake(const Word& word) {
  (void)::syscall(SYS_futex, &word, FUTEX_WAKE, 1 << 30, nullptr, nullptr, 0);
}

}  // namespace

// Shared by the test and its processes.
struct PausePage {
  std::uint64_t magic;
  Word armed;     // PausePoint; whoever swaps it to kNone stops
  Word skip;      // arrivals that pass
  Word stopped;   // thread id; 0: nobody
  Word released;  // grows with every let_go()
  std::array<Word, kPoints> arrivals;
};
static_assert(sizeof(PausePage) <= kPageBytes);

namespace pause_detail {

std::atomic<PausePage*> page{nullptr};

void arrive(PausePoint point) {
  PausePage& shared = *page.load(std::memory_order_acquire);
  shared.arrivals[static_cast<std::size_t>(point) - 1].fetch_add(1);
  auto armed = static_cast<std::uint32_t>(point);
  if (shared.armed.load() != armed) return;
  for (std::uint32_t skip = shared.skip.load(); skip > 0;) {
    if (shared.skip.compare_exchange_weak(skip, skip - 1)) return;
  }
  const std::uint32_t before = shared.released.load();
  if (!shared.armed.compare_exchange_strong(armed, 0)) return;
  shared.stopped.store(static_cast<std::uint32_t>(::syscall(SYS_gettid)));
  futex_wake(shared.stopped);
  const MonoNs limit = monotonic_ns() + kLongestPause;
  while (shared.released.load() == before && monotonic_ns() < limit) {
    futex_wait(shared.released, before, limit);
  }
}

}  // namespace pause_detail

std::span<const PausePoint> all_pause_points() {
  return kPointList;
}

std::string_view to_string(PausePoint point) {
  return point == PausePoint::kNone ? "none" : named(point).name;
}

std::optional<PausePoint> pause_point_from_name(std::string_view name) {
  const auto* found = std::ranges::find(kNamed, name, &Named::name);
  if (found == kNamed.end()) return std::nullopt;
  return found->point;
}

PauseProcess process_of(PausePoint point) {
  return named(point).process;
}

namespace {

int g_descriptor = -1;

int descriptor_from_environment() {
  const char* text = std::getenv(kPauseVariable);
  if (text == nullptr) return -1;
  int number = -1;
  const char* end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, number);
  return parsed.ec == std::errc() && parsed.ptr == end ? number : -1;
}

}  // namespace

void take_pause_page_from_environment() {
  const int number = descriptor_from_environment();
  if (number < 0 || pause_detail::page.load() != nullptr) return;
  // Sealed and of this size, or it is something else under this number.
  const int own = ::fcntl(number, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return;
  auto file = MemoryFile::adopt(FileDescriptor(own), kPageBytes);
  if (!file) return;
  void* at = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd(), 0);
  if (at == MAP_FAILED) return;
  auto* shared = static_cast<PausePage*>(at);
  if (shared->magic != kPageMagic) {
    (void)::munmap(at, kPageBytes);
    return;
  }
  g_descriptor = number;
  pause_detail::page.store(shared, std::memory_order_release);  // mapped until the process ends
}

int pause_page_descriptor() {
  return g_descriptor;
}

// ---- the test's side --------------------------------------------------------------------------

Result<PauseControl> PauseControl::create() {
  PauseControl control;
  auto file = MemoryFile::create({.name = "orlop-pause", .bytes = kPageBytes});
  if (!file) return std::unexpected(file.error());
  auto mapping =
      Mapping::map({.fd = file->fd(), .bytes = kPageBytes, .access = Access::kReadWrite});
  if (!mapping) return std::unexpected(mapping.error());
  control.file_ = std::move(*file);
  control.mapping_ = std::move(*mapping);
  control.page().magic = kPageMagic;
  return control;
}

PausePage& PauseControl::page() const {
  return *reinterpret_cast<PausePage*>(mapping_.data());
}

void PauseControl::arm(PausePoint point, std::uint32_t skip) {
  CHECK(page().armed.load() == 0 && page().stopped.load() == 0);
  page().skip.store(skip);
  page().armed.store(static_cast<std::uint32_t>(point));
}

std::optional<pid_t> PauseControl::wait_stopped(MonoNs deadline) const {
  for (;;) {
    if (const std::uint32_t thread = page().stopped.load(); thread != 0) {
      return static_cast<pid_t>(thread);
    }
    if (monotonic_ns() >= deadline) return std::nullopt;
    futex_wait(page().stopped, 0, deadline);
  }
}

void PauseControl::let_go() {
  page().armed.store(0);
  page().stopped.store(0);
  page().released.fetch_add(1);
  futex_wake(page().released);
}

std::uint32_t PauseControl::arrivals(PausePoint point) const {
  return page().arrivals[static_cast<std::size_t>(point) - 1].load();
}

}  // namespace orlop
