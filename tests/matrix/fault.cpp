// SPDX-License-Identifier: Apache-2.0
#include "fault.h"

#include <signal.h>

#include <array>

namespace orlop::matrix {

namespace {

constexpr std::array kFaults = {Fault::kKillClient, Fault::kKillServer, Fault::kKillKeeper,
                                Fault::kStop, Fault::kUpgrade};

}  // namespace

std::span<const Fault> all_faults() {
  return kFaults;
}

std::string_view to_string(Fault fault) {
  switch (fault) {
    case Fault::kKillClient:
      return "kill_client";
    case Fault::kKillServer:
      return "kill_server";
    case Fault::kKillKeeper:
      return "kill_keeper";
    case Fault::kStop:
      return "stop";
    case Fault::kUpgrade:
      return "upgrade";
  }
  return "?";
}

Provocation provocation_of(PausePoint point) {
  switch (point) {
    case PausePoint::kKeeperStarting:
      return Provocation::kFirstStart;
    case PausePoint::kClientResuming:
    case PausePoint::kServerStarting:
    case PausePoint::kServerRecovered:
    case PausePoint::kServerServing:
    case PausePoint::kKeeperSpawned:
    case PausePoint::kKeeperServing:
    case PausePoint::kKeeperServerEnded:
      return Provocation::kServerDeath;
    case PausePoint::kServerReclaiming:
      return Provocation::kClientDeath;
    case PausePoint::kKeeperReloading:
    case PausePoint::kKeeperChecked:
    case PausePoint::kServerStopping:
      return Provocation::kUpgrade;
    default:
      return Provocation::kNone;
  }
}

bool prepare(Host& host, Provocation provocation) {
  if (provocation == Provocation::kServerDeath) return host.await_serving();
  if (provocation == Provocation::kClientDeath) return host.start_visitor();
  return true;
}

void provoke(Host& host, Provocation provocation) {
  if (provocation == Provocation::kServerDeath) host.kill_servers();
  if (provocation == Provocation::kClientDeath) host.kill_visitor();
  if (provocation == Provocation::kUpgrade) host.daemon().hang_up();
}

void strike(Host& host, Fault fault, pid_t stopped) {
  switch (fault) {
    case Fault::kKillClient:
      host.kill_victim();
      break;
    case Fault::kKillServer:
      host.kill_servers();
      break;
    case Fault::kKillKeeper:
      host.kill_keeper();
      break;
    case Fault::kStop:
      // The process, not only the thread. A thread's id serves kill() as its process'.
      ::kill(stopped, SIGSTOP);
      host.pauses().let_go();  // so that it goes on when it may
      break;
    case Fault::kUpgrade:
      host.daemon().hang_up();
      break;
  }
}

void release(Host& host, Fault fault, pid_t stopped) {
  if (fault == Fault::kStop) {
    ::kill(stopped, SIGCONT);
  } else {
    host.pauses().let_go();
  }
}

}  // namespace orlop::matrix
