// SPDX-License-Identifier: Apache-2.0
// The C++ client behind a Python Client, shared with everything that it made: a client whose Python
// object is gone lives on until its plans, views and futures are gone.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <set>

#include "errors.h"
#include "orlop/client.h"
#include "platform/fork_guard.h"

namespace orlop::python {

class PlanMemory;

struct ClientBox {
  ForkGuard guard;
  PyObject* on_ready = nullptr;     // owned; called with True or False
  std::set<PlanMemory*> viewed;     // plans with live pages; the GIL guards it
  std::atomic<bool> closed{false};  // close() was called
  Client client;

  // Throws orlop.ForkedChild in a forked child.
  void check_process() const {
    if (guard.in_forked_child()) [[unlikely]]
      raise_forked();
  }
};

// Requires the GIL, as does letting go of what is returned: closing gives it up while it waits.
std::shared_ptr<ClientBox> open_client(ClientOptions options, nb::handle on_ready);
// Ends views that nobody uses, then the client. GIL held; given up in the wait for copies that
// other threads run and for commits. From a signal handler that interrupted a call of this client:
// that call fails with Closed when the handler returns.
void close_client(ClientBox& box);
// In a forked child: its hole in the address space must not be reached through a memoryview.
void invalidate_all_views();
// At the end of the interpreter: closes every client of this process.
void close_all_clients();

}  // namespace orlop::python
