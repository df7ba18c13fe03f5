// SPDX-License-Identifier: Apache-2.0
#include "node/server.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <utility>

#include "base/log.h"
#include "base/units.h"
#include "node/admin_server.h"
#include "node/keeper.h"
#include "node/option_table.h"
#include "platform/clock.h"
#include "runtime/server_loop.h"
#include "runtime/server_start.h"

namespace orlop::node {
namespace {

// The keeper writes everything before it looks elsewhere.
constexpr MonoNs kHandOverLimit = 10 * kNsPerSecond;

int exit_status_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return kExitBadConfiguration;
    case ErrorCode::kCorrupt:
      return kExitSegmentCorrupt;
    default:
      return kExitFailed;
  }
}

runtime::ServerConfig server_config(const NodeOptions& options) {
  runtime::ServerConfig config;
  config.node = options.machine;
  config.allowed_uids = options.allow_uids;
  config.unsafe_no_pidfd = options.unsafe_no_pidfd;
  config.spin_ns = options.spin;
  return config;
}

}  // namespace

int run_server(const NodeOptions& options, int keeper_fd) {
  // A terminal's Ctrl-C goes to both processes; the keeper decides when we stop.
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::signal(number, SIG_IGN);
  if (::fcntl(keeper_fd, F_SETFD, FD_CLOEXEC) != 0) {
    LOG_ERROR("no_keeper", {"remedy", "start orlopd without --server"});
    return kExitBadConfiguration;
  }
  auto start = runtime::receive_start(FileDescriptor(keeper_fd), monotonic_ns() + kHandOverLimit);
  if (!start) {
    LOG_ERROR("hand_over_failed", {"error", start.error().message});
    return start.error().code == ErrorCode::kCorrupt ? kExitSegmentCorrupt : kExitFailed;
  }
  const bool cold = start->hello.cold;
  auto loop = runtime::ServerLoop::create(server_config(options), std::move(*start));
  if (!loop) {
    LOG_ERROR("start_failed", {"error", loop.error().message});
    return exit_status_of(loop.error());
  }
  const runtime::StartReport& report = (*loop)->start_report();
  LOG_INFO("recovered", {"cold", cold}, {"took", format_duration_ns(report.took_ns)},
           {"slots_walked", report.recovery.slots_walked},
           {"slots_kept", report.recovery.slots_kept},
           {"slots_doomed", report.recovery.slots_doomed},
           {"prepared_kept", report.recovery.prepared_kept},
           {"prepared_freed", report.recovery.prepared_freed});
  AdminServer admin((*loop)->take_admin_socket(), (*loop)->ports(), effective(options));
  const auto ran = (*loop)->run();
  (*loop)->ports().close();  // so that the admin's threads do not wait for us
  if (!ran) LOG_ERROR("server_failed", {"error", ran.error().message});
  // Without destructors, also after "stop", which may be for an upgrade: the admin server would end
  // the listening socket that the next server needs.
  ::_exit(ran ? kExitOk : kExitFailed);
}

}  // namespace orlop::node
