// SPDX-License-Identifier: Apache-2.0
// PutPlan, GetHandle and ReadPlan: bytes, copies and their checks.
#include <atomic>
#include <utility>

#include "base/check.h"
#include "client/access.h"
#include "client/client_core.h"
#include "client/limits.h"
#include "copy/copy.h"
#include "orlop/client.h"
#include "platform/pause_point.h"

namespace orlop {

using detail::ClientAccess;
using detail::PutPlanState;
using detail::ReadState;

namespace {

std::unexpected<Error> wrong_state(const char* text) {
  return fail(ErrorCode::kWrongState, text);
}

std::unexpected<Error> forked_child() {
  return fail(ErrorCode::kForkedChild,
              "this object was made by the parent of this process; open a new Client here");
}

std::unexpected<Error> closed_under_it() {
  return fail(ErrorCode::kClosed, "plan: its client was closed");
}

Result<void> check_index(std::size_t i, std::size_t size) {
  if (i < size) return {};
  return fail(ErrorCode::kInvalidArgument,
              "i: is " + std::to_string(i) + ", the plan has " + std::to_string(size) + " keys");
}

Result<void> check_length(std::string_view argument, std::size_t bytes, std::uint32_t value_len) {
  if (bytes == value_len) return {};
  return fail(ErrorCode::kInvalidArgument,
              std::string(argument) + ": has " + std::to_string(bytes) +
                  " bytes, the namespace's value_len is " + std::to_string(value_len));
}

}  // namespace

// ---- may it be used? ---------------------------------------------------------------------------

namespace detail {

Result<void> ClientAccess::usable(const Client& client) {
  if (client.core_ == nullptr) return wrong_state("client: was moved from");
  if (client.core_->forked()) return forked_child();
  return {};
}

Result<void> ClientAccess::usable(const PutPlan& plan) {
  if (plan.state_ == nullptr)
    return wrong_state("plan: was committed, aborted or moved from; start a new put");
  if (plan.state_->core->forked()) return forked_child();
  if (plan.state_->over.load() == PutPlanState::Over::kClosed) return closed_under_it();
  return {};
}

Result<void> ClientAccess::usable(const ReadPlan& plan) {
  if (plan.state_ == nullptr)
    return wrong_state("plan: was released or moved from; get the pages again");
  if (plan.state_->core->forked()) return forked_child();
  if (plan.state_->phase.load(std::memory_order_relaxed) == ReadState::Phase::kClosed)
    return closed_under_it();
  return {};
}

namespace {
Result<void> check_idle(const client::CopyGate& gate) {
  if (!gate.busy()) return {};
  return wrong_state("plan: another thread copies; a plan belongs to one thread at a time");
}
}  // namespace

Result<void> ClientAccess::idle(const PutPlan& plan) {
  return check_idle(plan.state_->gate);
}
Result<void> ClientAccess::idle(const ReadPlan& plan) {
  return check_idle(plan.state_->gate);
}

Result<void> ClientAccess::usable(const Future& future) {
  if (future.state_ != nullptr && future.state_->core->forked()) return forked_child();
  return {};
}

Result<void> ClientAccess::usable(const Client& client, const PutPlan& plan) {
  if (auto checked = usable(client); !checked) return checked;
  if (auto checked = usable(plan); !checked) return checked;
  if (plan.state_->core != client.core_)
    return wrong_state("plan: belongs to another client; give it to the one that made it");
  return {};
}

Result<void> ClientAccess::usable(const Client& client, const GetHandle& handle) {
  if (auto checked = usable(client); !checked) return checked;
  if (handle.state_ == nullptr)
    return wrong_state("handle: was transferred, cancelled or moved from; ask with get_start");
  if (handle.state_->core->forked()) return forked_child();
  if (handle.state_->core != client.core_)
    return wrong_state("handle: belongs to another client; give it to the one that made it");
  return {};
}

Result<void> ClientAccess::usable(const Client& client, const ReadPlan& plan) {
  if (auto checked = usable(client); !checked) return checked;
  if (plan.state_ == nullptr)
    return wrong_state("plan: was released or moved from; get the pages again");
  if (plan.state_->core->forked()) return forked_child();
  if (plan.state_->core != client.core_)
    return wrong_state("plan: belongs to another client; give it to the one that made it");
  return {};
}

Result<void> ClientAccess::check_cohort(const ClientCore& core,
                                        std::span<const NamespaceState* const> ranks) {
  const auto invalid = [](std::size_t i, const std::string& text) {
    return fail(ErrorCode::kInvalidArgument, "ranks[" + std::to_string(i) + "]: " + text);
  };
  if (ranks.empty() || ranks.size() > client::kMaxCohort) {
    return fail(ErrorCode::kInvalidArgument, "ranks: has " + std::to_string(ranks.size()) +
                                                 " entries, allowed are 1 to " +
                                                 std::to_string(client::kMaxCohort));
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!core.belongs(ranks[i]))
      return invalid(i, "was not opened by this client; call open_namespace on it first");
    if (ranks[i]->family != ranks[0]->family)
      return invalid(i, "is of another family than ranks[0]; a cohort reads one model's ranks");
    for (std::size_t j = 0; j < i; ++j)
      if (ranks[i] == ranks[j])
        return invalid(i, "is the same as ranks[" + std::to_string(j) + "]; name each rank once");
  }
  return {};
}

void ClientAccess::drop(PutPlan& plan) {
  if (plan.state_ == nullptr) return;
  if (plan.state_->core->forked()) return leave(plan.state_);
  CHECK(!plan.state_->gate.busy(), "a PutPlan is not dropped while another thread copies into it");
  plan.state_->core->put_abort(plan.state_);
  plan.state_ = nullptr;
}

void ClientAccess::drop(ReadState*& state) {
  if (state == nullptr) return;
  if (!state->core->forked()) {
    CHECK(!state->gate.busy(), "a ReadPlan is not dropped while another thread copies from it");
    state->core->drop_read(state);
  }
  state = nullptr;
}

}  // namespace detail

// ---- PutPlan -----------------------------------------------------------------------------------

PutPlan::PutPlan(PutPlan&&) noexcept = default;
PutPlan& PutPlan::operator=(PutPlan&& other) noexcept {
  if (this == &other) return *this;
  ClientAccess::drop(*this);
  state_ = std::move(other.state_);
  return *this;
}
PutPlan::~PutPlan() {
  ClientAccess::drop(*this);
}

std::size_t PutPlan::size() const {
  return ClientAccess::usable(*this) ? state_->outcomes.size() : 0;
}
std::size_t PutPlan::prepared() const {
  return ClientAccess::usable(*this) ? state_->prepared : 0;
}
Outcome PutPlan::outcome(std::size_t i) const {
  return i < size() ? state_->outcomes[i] : Outcome::kAborted;
}
std::string_view PutPlan::explanation() const {
  return ClientAccess::usable(*this) ? std::string_view(state_->explanation) : std::string_view();
}

std::span<std::byte> PutPlan::memory(std::size_t i) const {
  if (i >= size() || state_->outcomes[i] != Outcome::kPrepared) return {};
  return state_->attachment->value(SlotId{state_->grants[i].slot}, state_->value_len);
}

Result<void> PutPlan::copy_in(std::size_t i, std::span<const std::byte> source) {
  if (auto checked = ClientAccess::usable(*this); !checked) return checked;
  // Before the other checks: from here on close() waits, and they all see the same plan.
  const client::RunningCopy running(state_->gate, state_->core->closed());
  if (!running) return closed_under_it();
  if (auto checked = check_index(i, size()); !checked) return checked;
  if (auto checked = check_length("source", source.size(), state_->value_len); !checked)
    return checked;
  const std::span<std::byte> target = memory(i);
  if (target.empty()) {
    return fail(ErrorCode::kInvalidArgument, "i: key " + std::to_string(i) + " got no memory (" +
                                                 std::string(to_string(outcome(i))) +
                                                 "); copy only what is prepared");
  }
  state_->checksums[i] =
      orlop::copy_in(target.data(), source.data(), source.size(),
                     {.key = state_->keys[i], .namespace_digest = state_->digest},
                     {.batch_bytes = std::uint64_t{state_->prepared} * state_->value_len});
  state_->summed[i] = true;
  PAUSE_POINT(kClientPutCopying);
  return {};
}

Result<void> PutPlan::set_checksum(std::size_t i, std::uint64_t checksum) {
  if (auto checked = ClientAccess::usable(*this); !checked) return checked;
  if (auto checked = check_index(i, state_->outcomes.size()); !checked) return checked;
  if (state_->outcomes[i] != Outcome::kPrepared) {
    return fail(ErrorCode::kInvalidArgument,
                "i: key " + std::to_string(i) + " got no memory; it has no checksum");
  }
  state_->checksums[i] = checksum;
  state_->summed[i] = true;
  return {};
}

Result<std::uint64_t> PutPlan::register_copy() {
  if (auto checked = ClientAccess::usable(*this); !checked) return std::unexpected(checked.error());
  return state_->core->register_put_copy(state_);
}

Result<void> PutPlan::copy_done(std::uint64_t copy, bool success) {
  if (state_ == nullptr)
    return wrong_state("plan: is over; report its copies with Client::copy_done");
  if (state_->core->forked()) return forked_child();
  return state_->core->copy_done(copy, success, state_.get());
}

Result<std::span<const std::uint64_t>> PutPlan::blob() {
  if (auto checked = ClientAccess::usable(*this); !checked) return std::unexpected(checked.error());
  return state_->core->put_blob(*state_);
}

// ---- GetHandle ---------------------------------------------------------------------------------

GetHandle::GetHandle(GetHandle&& other) noexcept
    : result_(other.result_), state_(std::exchange(other.state_, nullptr)) {}
GetHandle& GetHandle::operator=(GetHandle&& other) noexcept {
  if (this == &other) return *this;
  ClientAccess::drop(state_);
  result_ = other.result_;
  state_ = std::exchange(other.state_, nullptr);
  return *this;
}
GetHandle::~GetHandle() {
  ClientAccess::drop(state_);
}

// ---- ReadPlan ----------------------------------------------------------------------------------

ReadPlan::ReadPlan(ReadPlan&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
ReadPlan& ReadPlan::operator=(ReadPlan&& other) noexcept {
  if (this == &other) return *this;
  ClientAccess::drop(state_);
  state_ = std::exchange(other.state_, nullptr);
  return *this;
}
ReadPlan::~ReadPlan() {
  ClientAccess::drop(state_);
}

std::size_t ReadPlan::size() const {
  return ClientAccess::usable(*this) ? state_->pages : 0;
}
std::size_t ReadPlan::ranks() const {
  return ClientAccess::usable(*this) ? state_->rank_count : 0;
}
std::size_t ReadPlan::valid_len() const {
  return ClientAccess::usable(*this) ? state_->valid.load(std::memory_order_relaxed) : 0;
}

std::span<const std::byte> ReadPlan::view_unverified(std::size_t i, std::size_t rank) const {
  if (i >= size() || rank >= state_->rank_count) return {};
  const segment::PinnedSlot& pin = state_->ranks[rank].pins[i];
  return state_->attachment->value(pin.slot, pin.value_len);
}

std::uint64_t ReadPlan::expected_checksum(std::size_t i, std::size_t rank) const {
  if (i >= size() || rank >= state_->rank_count) return 0;
  return state_->ranks[rank].pins[i].checksum;
}

std::span<const std::byte> ReadPlan::view(std::size_t i, std::size_t rank) {
  const std::span<const std::byte> bytes = view_unverified(i, rank);
  if (bytes.empty() || i >= state_->valid) return {};
  const std::size_t bit = i * state_->rank_count + rank;
  std::uint64_t& word = state_->verified[bit / 64];
  if ((word >> (bit % 64) & 1) != 0) return bytes;
  bool matches = false;
  {
    const client::RunningCopy running(state_->gate, state_->core->closed());
    if (!running) return {};
    matches = verify(bytes.data(), bytes.size(), state_->identity(i, rank),
                     state_->ranks[rank].pins[i].checksum);
  }
  if (!matches) {
    state_->core->found_mismatch(*state_, i, rank);
    return {};
  }
  word |= std::uint64_t{1} << (bit % 64);
  return bytes;
}

Result<bool> ReadPlan::copy_out(std::size_t i, std::span<std::byte> destination, std::size_t rank) {
  if (auto checked = ClientAccess::usable(*this); !checked) return std::unexpected(checked.error());
  bool matches = false;
  {
    // Before the other checks: from here on close() waits, and they all see the same plan.
    const client::RunningCopy running(state_->gate, state_->core->closed());
    if (!running) return closed_under_it();
    if (auto checked = check_index(i, size()); !checked) return std::unexpected(checked.error());
    if (rank >= state_->rank_count) {
      return fail(ErrorCode::kInvalidArgument, "rank: is " + std::to_string(rank) +
                                                   ", the plan has " +
                                                   std::to_string(state_->rank_count));
    }
    const ReadState::Rank& pins = state_->ranks[rank];
    if (auto checked = check_length("destination", destination.size(), pins.value_len); !checked)
      return std::unexpected(checked.error());
    if (i >= state_->valid) return false;
    const std::span<const std::byte> bytes = view_unverified(i, rank);
    const std::uint64_t batch = std::uint64_t{state_->pages} * state_->rank_count * pins.value_len;
    matches =
        orlop::copy_out(destination.data(), bytes.data(), bytes.size(), state_->identity(i, rank),
                        pins.pins[i].checksum, {.batch_bytes = batch});
  }
  PAUSE_POINT(kClientCopyingOut);
  if (!matches) state_->core->found_mismatch(*state_, i, rank);
  return matches;
}

Result<void> ReadPlan::report_mismatch(std::size_t i, std::size_t rank) {
  if (auto checked = ClientAccess::usable(*this); !checked) return checked;
  if (auto checked = check_index(i, size()); !checked) return checked;
  if (rank >= state_->rank_count)
    return fail(ErrorCode::kInvalidArgument, "rank: is " + std::to_string(rank) +
                                                 ", the plan has " +
                                                 std::to_string(state_->rank_count));
  state_->core->found_mismatch(*state_, i, rank);
  return {};
}

Result<std::uint64_t> ReadPlan::register_copy() {
  if (auto checked = ClientAccess::usable(*this); !checked) return std::unexpected(checked.error());
  return state_->core->register_read_copy(*state_);
}

Result<void> ReadPlan::copy_done(std::uint64_t copy, bool success) {
  if (state_ == nullptr)
    return wrong_state("plan: is over; report its copies with Client::copy_done");
  if (state_->core->forked()) return forked_child();
  return state_->core->copy_done(copy, success, state_);
}

Result<std::span<const std::uint64_t>> ReadPlan::blob() {
  if (auto checked = ClientAccess::usable(*this); !checked) return std::unexpected(checked.error());
  return state_->core->read_blob(*state_);
}

}  // namespace orlop
