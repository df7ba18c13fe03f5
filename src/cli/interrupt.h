// SPDX-License-Identifier: Apache-2.0
// Ctrl-C of a command that has started processes and a folder: a flag that its waits look at, so
// that everything is stopped and removed in the ordinary way.
#pragma once

namespace orlop::cli {

// From now on SIGINT, SIGTERM and SIGHUP set the flag and end waiting system calls (EINTR). A
// second one of them has its usual effect: the process ends at once (its children follow by their
// parent death signal). Call once, from main's thread.
void catch_interrupts();
bool interrupted();

}  // namespace orlop::cli
