// SPDX-License-Identifier: Apache-2.0
// Between the public classes and their states: making them, asking whether they may be used.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "client/client_core.h"
#include "orlop/client.h"

namespace orlop::detail {

struct ClientAccess {
  // kWrongState (moved from, used up, of another client), kForkedChild, kClosed only where the plan
  // itself was ended by close().
  static Result<void> usable(const Client& client);
  static Result<void> usable(const Client& client, const PutPlan& plan);
  static Result<void> usable(const Client& client, const GetHandle& handle);
  static Result<void> usable(const Client& client, const ReadPlan& plan);
  static Result<void> usable(const PutPlan& plan);
  static Result<void> usable(const ReadPlan& plan);
  // kWrongState: a copy of it runs on another thread, which has it.
  static Result<void> idle(const PutPlan& plan);
  static Result<void> idle(const ReadPlan& plan);
  static Result<void> usable(const Future& future);  // kForkedChild; a default-made one may be used
  static Result<void> check_cohort(const ClientCore& core,
                                   std::span<const NamespaceState* const> ranks);

  static ClientCore& core(const Client& client) { return *client.core_; }  // requires: usable
  static NamespaceState* state(const Namespace& ns) { return ns.state_.get(); }
  static std::shared_ptr<PutPlanState>& state(PutPlan& plan) { return plan.state_; }
  static FutureState* state(const Future& future) { return future.state_.get(); }
  static ReadState*& state(GetHandle& handle) { return handle.state_; }
  static ReadState*& state(ReadPlan& plan) { return plan.state_; }

  static Namespace make_namespace(std::shared_ptr<NamespaceState> state) {
    Namespace made;
    made.state_ = std::move(state);
    return made;
  }
  static Future make_future(std::shared_ptr<FutureState> state) {
    Future made;
    made.state_ = std::move(state);
    return made;
  }
  static PutPlan make_put_plan(std::shared_ptr<PutPlanState> state) {
    PutPlan made;
    made.state_ = std::move(state);
    return made;
  }
  static GetHandle make_handle(ReadState* state, const GetResult& result) {
    GetHandle made;
    made.state_ = state;
    made.result_ = result;
    return made;
  }
  static ReadPlan make_read_plan(ReadState* state) {
    ReadPlan made;
    made.state_ = state;
    return made;
  }

  // In a forked child: the parent's object stays where it is, nothing of it is torn down here.
  template <class T>
  static void leave(std::shared_ptr<T>& state) {
    static_cast<void>(new std::shared_ptr<T>(std::move(state)));
  }
  // The user lets go, in whatever process.
  static void drop(PutPlan& plan);
  static void drop(ReadState*& state);
};

}  // namespace orlop::detail
