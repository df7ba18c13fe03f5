// SPDX-License-Identifier: Apache-2.0
#include "client_box.h"

#include <map>
#include <utility>
#include <vector>

#include "gil.h"
#include "plan_memory.h"

namespace orlop::python {

namespace {

struct Callback {
  PyObject* callable = nullptr;  // the box owns the reference
  bool silent = false;           // its client is being dropped; the GIL guards it
  std::weak_ptr<ClientBox> box;
};

// Weak: a client leaves when it is dropped. Never freed, the GIL guards it.
std::map<ClientBox*, std::shared_ptr<Callback>>& all_clients() {
  static auto* const clients = new std::map<ClientBox*, std::shared_ptr<Callback>>;
  return *clients;
}

// Held: closing one gives up the GIL, and another thread may drop the next meanwhile.
std::vector<std::shared_ptr<ClientBox>> every_client() {
  std::vector<std::shared_ptr<ClientBox>> clients;
  for (const auto& [box, callback] : all_clients())
    if (auto held = callback->box.lock()) clients.push_back(std::move(held));
  return clients;
}

// Held: releasing a view may run Python code that drops the next plan.
void invalidate_views_of(const ClientBox& box) {
  std::vector<std::shared_ptr<PlanMemory>> plans;
  for (PlanMemory* const plan : box.viewed) plans.push_back(plan->shared_from_this());
  for (const std::shared_ptr<PlanMemory>& plan : plans) plan->invalidate_views();
}

void call_on_ready(const Callback& callback, bool ready) {
  const GilAcquire gil;
  // The collector may have emptied what a dropped client's callable refers to.
  if (!gil || callback.silent) return;
  // Held: the call may drop the client, and the box's reference with it.
  PyObject* const callable = Py_NewRef(callback.callable);
  PyObject* const answer = PyObject_CallOneArg(callable, ready ? Py_True : Py_False);
  if (answer == nullptr) PyErr_WriteUnraisable(callable);  // nobody above could be told
  Py_XDECREF(answer);
  Py_DECREF(callable);
}

void drop_client(ClientBox* box) {
  const auto known = all_clients().find(box);
  known->second->silent = true;
  all_clients().erase(known);
  PyObject* const on_ready = std::exchange(box->on_ready, nullptr);
  {
    // Its own thread may want the GIL for on_ready before it ends.
    const GilRelease others;
    delete box;
  }
  Py_XDECREF(on_ready);
}

}  // namespace

std::shared_ptr<ClientBox> open_client(ClientOptions options, nb::handle on_ready) {
  auto guard = ForkGuard::create();
  if (!guard) raise(guard.error());
  // The client's thread ends before the callable is let go of: drop_client.
  const auto callback = std::make_shared<Callback>();
  if (!on_ready.is_none()) {
    callback->callable = Py_NewRef(on_ready.ptr());
    options.on_ready = [callback](bool ready) { call_on_ready(*callback, ready); };
  }
  std::shared_ptr<ClientBox> box(new ClientBox{.guard = *guard,
                                               .on_ready = callback->callable,
                                               .viewed = {},
                                               .closed = false,
                                               .client = Client(std::move(options))},
                                 drop_client);
  callback->box = box;
  all_clients().emplace(box.get(), callback);
  return box;
}

void close_client(ClientBox& box) {
  if (box.guard.in_forked_child()) return;
  invalidate_views_of(box);
  box.closed = true;
  const GilRelease others;
  box.client.close();
}

void invalidate_all_views() {
  for (const std::shared_ptr<ClientBox>& box : every_client()) invalidate_views_of(*box);
}

void close_all_clients() {
  for (const std::shared_ptr<ClientBox>& box : every_client()) close_client(*box);
}

}  // namespace orlop::python
