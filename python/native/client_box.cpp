// SPDX-License-Identifier: Apache-2.0
#include "client_box.h"

#include <chrono>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "plan_memory.h"

namespace orlop::python {

namespace {

// A copy of one value takes less; how often close() looks whether the last one is over.
constexpr std::chrono::microseconds kCopyPoll{100};

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
  PyObject* const answer = PyObject_CallOneArg(callback.callable, ready ? Py_True : Py_False);
  if (answer == nullptr) PyErr_WriteUnraisable(callback.callable);  // nobody above could be told
  Py_XDECREF(answer);
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
  const auto callback = std::make_shared<Callback>();
  if (!on_ready.is_none()) {
    callback->callable = Py_NewRef(on_ready.ptr());
    options.on_ready = [callback](bool ready) { call_on_ready(*callback, ready); };
  }
  std::shared_ptr<ClientBox> box(new ClientBox{.guard = *guard,
                                               .on_ready = callback->callable,
                                               .viewed = {},
                                               .closing = false,
                                               .client = Client(std::move(options))},
                                 drop_client);
  callback->box = box;
  all_clients().emplace(box.get(), callback);
  return box;
}

void close_client(ClientBox& box) {
  if (box.guard.in_forked_child()) return;
  invalidate_views_of(box);
  box.closing = true;
  while (box.copying > 0) {
    const GilRelease others;
    std::this_thread::sleep_for(kCopyPoll);
  }
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
