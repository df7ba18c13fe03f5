// SPDX-License-Identifier: Apache-2.0
// What is done to a host, and how it is brought to the places where it is done.
#pragma once

#include <sys/types.h>

#include <span>
#include <string_view>

#include "host.h"
#include "platform/pause_point.h"

namespace orlop::matrix {

enum class Fault { kKillClient, kKillServer, kKillKeeper, kStop, kUpgrade };
std::span<const Fault> all_faults();
std::string_view to_string(Fault fault);  // "kill_client"

// Places that a host at work does not come to by itself.
enum class Provocation { kNone, kFirstStart, kServerDeath, kClientDeath, kUpgrade };
Provocation provocation_of(PausePoint point);
// What provoke() needs: a server that serves, a client to be killed. Where the host is at work
// already this is to be done before a point is armed, for who stops there may be whom it needs.
// False: it did not come about; the host has a complaint.
bool prepare(Host& host, Provocation provocation);
void provoke(Host& host, Provocation provocation);

// stopped: the thread that stands at a pause point. A client that is killed is the victim.
void strike(Host& host, Fault fault, pid_t stopped);
// Everybody who still stands goes on. After kStop: the process lives again.
void release(Host& host, Fault fault, pid_t stopped);

}  // namespace orlop::matrix
