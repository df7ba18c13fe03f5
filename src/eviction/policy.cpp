// SPDX-License-Identifier: Apache-2.0
#include "eviction/policy.h"

#include <array>
#include <exception>
#include <string>
#include <utility>

#include "base/check.h"
#include "eviction/lru.h"

namespace orlop {

Victim::Victim(Victim&& other) noexcept
    : group_(std::exchange(other.group_, GroupRef{})),
      ticket_(other.ticket_),
      members_(other.members_),
      bytes_(other.bytes_),
      class_id_(other.class_id_) {}

Victim& Victim::operator=(Victim&& other) noexcept {
  if (this == &other) return *this;
  CHECK(!group_, "a victim was overwritten before it was settled");
  group_ = std::exchange(other.group_, GroupRef{});
  ticket_ = other.ticket_;
  members_ = other.members_;
  bytes_ = other.bytes_;
  class_id_ = other.class_id_;
  return *this;
}

Victim::~Victim() {
#ifdef ORLOP_SIMULATION
  // A simulated kill unwinds its owner between any two steps.
  if (std::uncaught_exceptions() > 0) return;
#endif
  CHECK(!group_, "a victim was dropped before it was settled");
}

Victim Policy::select(GroupRef group, std::uint16_t class_id, std::uint32_t members,
                      std::uint64_t bytes, std::uint32_t ticket) {
  ++counters_.selected;
  ++counters_.pending;
  counters_.pending_bytes += bytes;
  return Victim(group, class_id, members, bytes, ticket);
}

std::uint32_t Policy::ticket_of(const Victim& victim) {
  CHECK(victim.group_, "the victim was settled already");
  return victim.ticket_;
}

void Policy::settle(Victim& victim, Fate fate) {
  CHECK(victim.group_, "the victim was settled already");
  CHECK(counters_.pending > 0 && counters_.pending_bytes >= victim.bytes_,
        "the victim belongs to another policy");
  victim.group_ = GroupRef{};
  --counters_.pending;
  counters_.pending_bytes -= victim.bytes_;
  switch (fate) {
    case Fate::kFreed:
      ++counters_.freed;
      return;
    case Fate::kRestored:
      ++counters_.restored;
      return;
    case Fate::kObsolete:
      ++counters_.obsolete;
      return;
  }
}

void Policy::validate_counters() const {
  const Counters& c = counters_;
  CHECK(c.selected == c.freed + c.restored + c.obsolete + c.pending, "a victim was lost");
  CHECK(c.pending > 0 || c.pending_bytes == 0);
}

namespace {

template <class T>
std::unique_ptr<Policy> make(std::uint32_t max_slot_id) {
  return std::make_unique<T>(max_slot_id);
}

// Names and makers, index by index.
constexpr std::array<std::string_view, 1> kNames = {LruPolicy::kName};
constexpr std::array<std::unique_ptr<Policy> (*)(std::uint32_t), 1> kMakers = {make<LruPolicy>};
static_assert(kNames.size() == kMakers.size());

}  // namespace

std::span<const std::string_view> policy_names() {
  return kNames;
}

Result<std::unique_ptr<Policy>> make_policy(std::string_view name, std::uint32_t max_slot_id) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return kMakers[i](max_slot_id);
  }
  std::string known;
  for (std::string_view n : kNames) {
    if (!known.empty()) known += ", ";
    known += n;
  }
  return fail(ErrorCode::kInvalidArgument,
              "unknown eviction policy '" + std::string(name) + "'; known: " + known);
}

}  // namespace orlop
