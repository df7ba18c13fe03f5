// SPDX-License-Identifier: Apache-2.0
// Named places at which a test stops a process, to kill or replace one of the host's processes just
// there. Compiled into the shipped programs, off by default: nobody but a test that starts a
// process with a pause page can turn one on.
//
//   PAUSE_POINT(kPutCopied);
//
// Cost when off: one relaxed load and a branch that is not taken.
// A test makes a PauseControl, starts processes with its descriptor (kPauseVariable names the
// number) and arms one point. The first thread of any of those processes that arrives there says so
// and waits; only that one, until the test lets it go. Other threads of its process run on.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "orlop/error.h"
#include "platform/file_descriptor.h"
#include "platform/mapping.h"
#include "platform/memory_file.h"

namespace orlop {

// Whose code the point lies in.
enum class PauseProcess { kClient, kServer, kKeeper };

// Every point, with the place it names. A new one also goes into pause_point.cpp.
enum class PausePoint : std::uint32_t {
  kNone,
  // Client library.
  kClientHello,         // connected, nothing sent
  kClientMapped,        // welcomed and mapped, no namespace open
  kClientPutPosted,     // request in the ring, no answer yet
  kClientPutGranted,    // slots granted, no byte written
  kClientPutCopying,    // half of the bytes written
  kClientCommitting,    // bytes written, commit not posted
  kClientCommitPosted,  // commit in the ring, no answer yet
  kClientPinned,        // pinned, before the bytes are read
  kClientCopyingOut,    // half of the bytes read
  kClientReleasing,     // before the pins end
  kClientDoorbell,      // message in the ring, doorbell not rung
  kClientResuming,      // a new server is there, resume not sent
  kClientDetaching,     // before the detach
  // Server.
  kServerStarting,     // handed over, before recovery or format
  kServerRecovered,    // recovered, not yet serving
  kServerServing,      // said that it serves
  kServerAccepted,     // a client's connection accepted
  kServerChannelMade,  // channel made, keeper not told
  kServerKeeperAcked,  // keeper holds the channel, client not welcomed
  kServerStepping,     // messages read from a ring, not handled
  kServerStepped,      // handled, effects not carried out
  kServerAnswered,     // answer in the ring, client not woken
  kServerSleeping,     // sleep flag set, before the last look
  kServerReclaiming,   // a client is dead, nothing freed yet
  kServerReclaimed,    // its slots are free, keeper not told
  kServerBackground,   // before a slice of background work
  kServerStopping,     // asked to stop
  // Keeper.
  kKeeperStarting,     // memory made or taken over, no server yet
  kKeeperSpawned,      // server started, hello not sent
  kKeeperServing,      // the server serves, status file not written
  kKeeperHolding,      // a channel came, not held yet
  kKeeperHeld,         // held, server not told
  kKeeperDropping,     // before a channel is let go of
  kKeeperServerEnded,  // server dead, before its end is handled
  kKeeperReloading,    // SIGHUP read, nothing begun
  kKeeperChecked,      // the new program is good, the old server still serves
};

// In the order of the enum, without kNone.
std::span<const PausePoint> all_pause_points();
std::string_view to_string(PausePoint point);  // "client_put_granted"
std::optional<PausePoint> pause_point_from_name(std::string_view name);
PauseProcess process_of(PausePoint point);

// Name of the environment variable with the descriptor's number.
inline constexpr const char* kPauseVariable = "ORLOP_TEST_PAUSE_FD";

// Makes this process one that can be paused, if its environment names a pause page; else nothing
// happens. For main(), before other threads; the client library never calls it by itself.
void take_pause_page_from_environment();
// The descriptor of the page, to be handed on to a child under the same number; -1: none.
int pause_page_descriptor();

struct PausePage;
namespace pause_detail {
extern std::atomic<PausePage*> page;
void arrive(PausePoint point);
}  // namespace pause_detail

#define PAUSE_POINT(point)                                                                     \
  do {                                                                                         \
    if (::orlop::pause_detail::page.load(std::memory_order_relaxed) != nullptr) [[unlikely]] { \
      ::orlop::pause_detail::arrive(::orlop::PausePoint::point);                               \
    }                                                                                          \
  } while (false)

// The test's side. Thread: one.
class PauseControl {
 public:
  static Result<PauseControl> create();

  // For KeptDescriptor and kPauseVariable.
  int fd() const { return file_.fd(); }

  // The (skip + 1)-th arrival at `point` from now on stops. Requires: none is armed or stopped.
  void arm(PausePoint point, std::uint32_t skip = 0);
  // The thread (kernel's number, in its own pid namespace) that has stopped there. None: the
  // deadline passed first; the point stays armed. deadline: CLOCK_MONOTONIC.
  std::optional<pid_t> wait_stopped(MonoNs deadline) const;
  // Lets go of who has stopped, and disarms.
  void let_go();
  // How often any process has arrived at the point since the page was made.
  std::uint32_t arrivals(PausePoint point) const;

 private:
  PausePage& page() const;
  MemoryFile file_;
  Mapping mapping_;
};

// A thread that nobody lets go of goes on by itself after this long: a test that died must not
// leave processes behind that hang.
inline constexpr MonoNs kLongestPause = 60 * kNsPerSecond;

}  // namespace orlop
