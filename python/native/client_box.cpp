// SPDX-License-Identifier: Apache-2.0
#include "client_box.h"

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "plan_memory.h"

namespace orlop::python {

namespace {

// A copy of one value takes less; how often close() looks whether the last one is over.
constexpr std::chrono::microseconds kCopyPoll{100};

// Weak: a closed and dropped client leaves at its end. Never freed, the GIL guards it.
std::set<ClientBox*>& all_clients() {
  static auto* const clients = new std::set<ClientBox*>;
  return *clients;
}

void call_on_ready(PyObject* callable, bool ready) {
  const GilAcquire gil;
  if (!gil) return;
  PyObject* const answer = PyObject_CallOneArg(callable, ready ? Py_True : Py_False);
  if (answer == nullptr) PyErr_WriteUnraisable(callable);  // nobody above could be told
  Py_XDECREF(answer);
}

void drop_client(ClientBox* box) {
  all_clients().erase(box);
  PyObject* const on_ready = std::exchange(box->on_ready, nullptr);
  {
    // Its own thread may want the GIL for on_ready before it ends.
    const GilRelease others;
    delete box;
  }
  Py_XDECREF(on_ready);
}

}  // namespace

CopySection::CopySection(ClientBox& box) : box_(box) {
  if (box.closing) raise(ErrorCode::kClosed, "client: was closed");
  ++box.copying;
  others_.emplace();
}

CopySection::~CopySection() {
  --box_.copying;
  others_.reset();
}

std::shared_ptr<ClientBox> open_client(ClientOptions options, nb::handle on_ready) {
  auto guard = ForkGuard::create();
  if (!guard) raise(guard.error());
  // The client's thread ends before the callable is let go of: drop_client.
  PyObject* const callable = on_ready.is_none() ? nullptr : Py_NewRef(on_ready.ptr());
  if (callable != nullptr)
    options.on_ready = [callable](bool ready) { call_on_ready(callable, ready); };
  std::shared_ptr<ClientBox> box(new ClientBox{.guard = *guard,
                                               .on_ready = callable,
                                               .viewed = {},
                                               .closing = false,
                                               .client = Client(std::move(options))},
                                 drop_client);
  all_clients().insert(box.get());
  return box;
}

void close_client(ClientBox& box) {
  if (box.guard.in_forked_child()) return;
  for (PlanMemory* const plan : std::vector(box.viewed.begin(), box.viewed.end()))
    plan->invalidate_views();
  box.closing = true;
  while (box.copying > 0) {
    const GilRelease others;
    std::this_thread::sleep_for(kCopyPoll);
  }
  const GilRelease others;
  box.client.close();
}

void invalidate_all_views() {
  for (ClientBox* const box : all_clients())
    for (PlanMemory* const plan : std::vector(box->viewed.begin(), box->viewed.end()))
      plan->invalidate_views();
}

void close_all_clients() {
  for (ClientBox* const box : std::vector(all_clients().begin(), all_clients().end()))
    close_client(*box);
}

}  // namespace orlop::python
