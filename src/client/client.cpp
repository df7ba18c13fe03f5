// SPDX-License-Identifier: Apache-2.0
// The public face: fork checks, states of plans and handles, helpers. The work is in ClientCore.
#include "orlop/client.h"

#include <utility>

#include "base/check.h"
#include "client/access.h"
#include "client/arguments.h"
#include "client/client_core.h"

namespace orlop {

using detail::ClientAccess;
using detail::ClientCore;

namespace {

std::unexpected<Error> forked_child() {
  return fail(ErrorCode::kForkedChild,
              "this object was made by the parent of this process; open a new Client here");
}

std::unexpected<Error> foreign_namespace(std::string_view argument) {
  return fail(
      ErrorCode::kInvalidArgument,
      std::string(argument) + ": was not opened by this client; call open_namespace on it first");
}

}  // namespace

// ---- Namespace, Future ----------------------------------------------------------------------

const NamespaceDescriptor& Namespace::descriptor() const {
  CHECK(state_ != nullptr, "Namespace: came from open_namespace");
  return state_->descriptor;
}
std::uint32_t Namespace::value_len() const {
  return descriptor().value_len;
}
bool Namespace::resolved() const {
  return state_ != nullptr && state_->place.load(std::memory_order_acquire) != 0;
}

bool Future::ready() const {
  if (state_ == nullptr || state_->core->forked()) return false;
  return state_->core->future_ready(*state_);
}

std::optional<std::vector<Outcome>> Future::wait(Milliseconds timeout) const {
  if (state_ == nullptr || state_->core->forked()) return std::nullopt;
  const MonoNs deadline = state_->core->deadline_in(timeout);
  if (!state_->core->wait_future(*state_, deadline)) return std::nullopt;
  return state_->outcomes;
}

// ---- Client ---------------------------------------------------------------------------------

Client::Client(ClientOptions options) : core_(ClientCore::start(std::move(options))) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&& other) noexcept {
  if (this == &other) return *this;
  Client before(std::move(*this));
  core_ = std::move(other.core_);
  return *this;
}

Client::~Client() {
  if (core_ == nullptr) return;
  if (core_->forked()) {
    ClientAccess::leave(core_);
    return;
  }
  core_->close();
}

void Client::close() {
  if (core_ != nullptr && !core_->forked()) core_->close();
}

bool Client::ready() const {
  return core_ != nullptr && !core_->forked() && core_->ready();
}
bool Client::wait_ready(Milliseconds timeout) const {
  return core_ != nullptr && !core_->forked() && core_->wait_ready(timeout);
}
Error Client::last_attach_error() const {
  if (auto usable = ClientAccess::usable(*this); !usable) return usable.error();
  return core_->last_attach_error();
}
std::uint64_t Client::segment_id() const {
  return ClientAccess::usable(*this) ? core_->segment_id() : 0;
}
std::uint64_t Client::incarnation() const {
  return ClientAccess::usable(*this) ? core_->incarnation() : 0;
}

Result<Namespace> Client::open_namespace(const NamespaceDescriptor& descriptor) {
  if (auto usable = ClientAccess::usable(*this); !usable) return std::unexpected(usable.error());
  auto state = core_->open_namespace(descriptor);
  if (!state) return std::unexpected(state.error());
  return ClientAccess::make_namespace(std::move(*state));
}

Result<PutPlan> Client::put_start(const Namespace& ns, std::span<const Key> keys,
                                  const PutOptions& options) {
  if (auto usable = ClientAccess::usable(*this); !usable) return std::unexpected(usable.error());
  if (!core_->belongs(ClientAccess::state(ns))) return foreign_namespace("ns");
  auto plan = core_->put_start(*ClientAccess::state(ns), keys, options);
  if (!plan) return std::unexpected(plan.error());
  return ClientAccess::make_put_plan(std::move(*plan));
}

Result<Future> Client::put_commit(PutPlan& plan) {
  if (auto usable = ClientAccess::usable(*this, plan); !usable)
    return std::unexpected(usable.error());
  if (auto idle = ClientAccess::idle(plan); !idle) return std::unexpected(idle.error());
  auto future = core_->put_commit(ClientAccess::state(plan));
  if (!future) return std::unexpected(future.error());
  ClientAccess::state(plan) = nullptr;
  return ClientAccess::make_future(std::move(*future));
}

Result<void> Client::put_abort(PutPlan& plan) {
  if (auto usable = ClientAccess::usable(*this, plan); !usable)
    return std::unexpected(usable.error());
  if (auto idle = ClientAccess::idle(plan); !idle) return idle;
  core_->put_abort(ClientAccess::state(plan));
  ClientAccess::state(plan) = nullptr;
  return {};
}

Result<std::vector<Outcome>> Client::put(const Namespace& ns, std::span<const Key> keys,
                                         std::span<const std::span<const std::byte>> buffers,
                                         const PutOptions& options) {
  if (auto usable = ClientAccess::usable(*this); !usable) return std::unexpected(usable.error());
  if (!core_->belongs(ClientAccess::state(ns))) return foreign_namespace("ns");
  if (auto checked = client::check_buffers(buffers, keys.size(), ns.value_len()); !checked)
    return std::unexpected(checked.error());
  const MonoNs deadline = core_->deadline_in(options.deadline);
  auto plan = put_start(ns, keys, options);
  if (!plan) return std::unexpected(plan.error());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (plan->outcome(i) != Outcome::kPrepared) continue;
    if (auto copied = plan->copy_in(i, buffers[i]); !copied) return std::unexpected(copied.error());
  }
  detail::PutPlanState& state = *ClientAccess::state(*plan);
  std::vector<Outcome> outcomes = state.outcomes;
  const auto future = put_commit(*plan);
  if (!future) return std::unexpected(future.error());
  detail::FutureState& pending = *ClientAccess::state(*future);
  if (core_->wait_future(pending, deadline)) return pending.outcomes;
  // The commit goes on by itself; for this caller it was not stored in time.
  for (Outcome& outcome : outcomes)
    if (outcome == Outcome::kPrepared) outcome = Outcome::kNoNode;
  return outcomes;
}

Result<GetHandle> Client::get_start(const Namespace& ns, std::span<const Key> keys,
                                    const GetOptions& options) {
  if (auto usable = ClientAccess::usable(*this); !usable) return std::unexpected(usable.error());
  const detail::NamespaceState* const ranks[1] = {ClientAccess::state(ns)};
  if (!core_->belongs(ranks[0])) return foreign_namespace("ns");
  GetResult result;
  const auto state = core_->get_start({ranks, keys, options.atomic_group_lens}, &result);
  if (!state) return std::unexpected(state.error());
  return ClientAccess::make_handle(*state, result);
}

Result<GetHandle> Client::get_start_cohort(std::span<const Namespace> ranks,
                                           std::span<const Key> keys, const GetOptions& options) {
  if (auto usable = ClientAccess::usable(*this); !usable) return std::unexpected(usable.error());
  std::vector<const detail::NamespaceState*> states;
  for (const Namespace& rank : ranks) states.push_back(ClientAccess::state(rank));
  if (auto checked = ClientAccess::check_cohort(*core_, states); !checked)
    return std::unexpected(checked.error());
  GetResult result;
  const auto state = core_->get_start({states, keys, options.atomic_group_lens}, &result);
  if (!state) return std::unexpected(state.error());
  return ClientAccess::make_handle(*state, result);
}

Result<ReadPlan> Client::get_transfer(GetHandle& handle,
                                      std::optional<std::uint32_t> consume_prefix_len) {
  if (auto usable = ClientAccess::usable(*this, handle); !usable)
    return std::unexpected(usable.error());
  detail::ReadState*& state = ClientAccess::state(handle);
  if (auto moved = core_->get_transfer(*state, consume_prefix_len); !moved) {
    if (moved.error().code != ErrorCode::kInvalidArgument)
      core_->drop_read(std::exchange(state, nullptr));
    return std::unexpected(moved.error());
  }
  return ClientAccess::make_read_plan(std::exchange(state, nullptr));
}

Result<void> Client::cancel_get(GetHandle& handle) {
  if (auto usable = ClientAccess::usable(*this, handle); !usable) return usable;
  core_->drop_read(std::exchange(ClientAccess::state(handle), nullptr));
  return {};
}

Result<void> Client::release_views(ReadPlan& plan) {
  if (auto usable = ClientAccess::usable(*this, plan); !usable) return usable;
  if (auto idle = ClientAccess::idle(plan); !idle) return idle;
  core_->drop_read(std::exchange(ClientAccess::state(plan), nullptr));
  return {};
}

Result<void> Client::copy_done(std::uint64_t copy, bool success) {
  if (core_ == nullptr) return fail(ErrorCode::kWrongState, "client: was moved from");
  if (core_->forked()) return forked_child();
  return core_->copy_done(copy, success, nullptr);
}

Result<std::uint32_t> Client::get(const Namespace& ns, std::span<const Key> keys,
                                  std::span<const std::span<std::byte>> buffers,
                                  const GetOptions& options) {
  if (auto usable = ClientAccess::usable(*this); !usable) return std::unexpected(usable.error());
  if (!core_->belongs(ClientAccess::state(ns))) return foreign_namespace("ns");
  if (auto checked = client::check_buffers(buffers, keys.size(), ns.value_len()); !checked)
    return std::unexpected(checked.error());
  auto handle = get_start(ns, keys, options);
  if (!handle) return std::unexpected(handle.error());
  auto plan = get_transfer(*handle);
  if (!plan) return std::unexpected(plan.error());
  std::uint32_t copied = 0;
  for (; copied < plan->size(); ++copied) {
    const auto matched = plan->copy_out(copied, buffers[copied]);
    if (!matched) return std::unexpected(matched.error());
    if (!*matched) break;
  }
  if (auto released = release_views(*plan); !released) return std::unexpected(released.error());
  return client::whole_groups(options.atomic_group_lens, copied).keys;
}

Result<ExistsResult> Client::exists(const Namespace& ns, std::span<const Key> keys) {
  if (auto usable = ClientAccess::usable(*this); !usable) return std::unexpected(usable.error());
  if (!core_->belongs(ClientAccess::state(ns))) return foreign_namespace("ns");
  return core_->exists(*ClientAccess::state(ns), keys);
}

Result<std::uint64_t> Client::remove(const Namespace& ns, std::span<const Key> keys) {
  if (auto usable = ClientAccess::usable(*this); !usable) return std::unexpected(usable.error());
  if (!core_->belongs(ClientAccess::state(ns))) return foreign_namespace("ns");
  return core_->remove(*ClientAccess::state(ns), keys);
}

Result<std::uint64_t> Client::flush(const Namespace& ns) {
  if (auto usable = ClientAccess::usable(*this); !usable) return std::unexpected(usable.error());
  if (!core_->belongs(ClientAccess::state(ns))) return foreign_namespace("ns");
  return core_->flush(*ClientAccess::state(ns), false);
}

Result<std::uint64_t> Client::flush_family(const Namespace& ns) {
  if (auto usable = ClientAccess::usable(*this); !usable) return std::unexpected(usable.error());
  if (!core_->belongs(ClientAccess::state(ns))) return foreign_namespace("ns");
  return core_->flush(*ClientAccess::state(ns), true);
}

Result<void> Client::ping() {
  if (auto usable = ClientAccess::usable(*this); !usable) return usable;
  return core_->ping();
}

ClientStats Client::stats() const {
  return ClientAccess::usable(*this) ? core_->stats() : ClientStats{};
}

}  // namespace orlop
