// SPDX-License-Identifier: Apache-2.0
// Which groups leave memory when room is needed.
//
// A policy is a pure bookkeeper of *groups* (all pages of one put that come and go together), each
// named by the slot id of its first member. It is told what happens to groups and, on request,
// selects victims of one size class. It never frees anything itself and calls nobody back:
//
//   std::vector<Victim> victims;
//   policy->evict_some(class_id, bytes_wanted, kMaxGroups, victims);
//   ... retire, fence, scan for pins (in the order of `victims`: children before parents) ...
//   for (Victim& v : victims) {
//     const bool keep = is_pinned(v.group()) || policy->has_resident_children(v);
//     keep ? policy->restored_pinned(std::move(v)) : policy->freed(std::move(v));
//   }
//
// Guarantees of every policy
//   * Leaf-first: a group is selected only if all its resident children are selected already
//     (earlier in the same call, or pending from an earlier one). A pinned child holds its parent.
//   * A pinned group is never selected and costs nothing while it is pinned.
//   * Ownership: every Victim is settled exactly once; at every moment
//     selected = freed + restored + obsolete + pending (counters()).
//   * Amortised constant work per call and victim; no call walks pinned entries. One exception,
//     documented where it occurs (lru.h), is paid for in advance.
//   * Deterministic: no clock, no randomness, no dependence on addresses or hash order. The same
//     calls give the same victims.
//   * Never changes capacities, never selects more than asked (the last victim may exceed `bytes`).
//
// Parent links. A parent need not be resident when its child is inserted: the groups of one put are
// inserted from the last to the first. A parent that is not resident is *awaited*: the caller
// promises either to insert exactly that parent before its slot is used for anything else, or to
// call removed(parent), which cuts the links of those who wait for it. Links must not form a cycle
// (a cycle would never be evicted). When a group leaves while it has children, the children live on
// as roots: their links are cut, also against later groups in the same slot.
//
// Recovery after a restart: call inserted() for every readable group, oldest first; then pinned()
// for those a scan finds pinned.
//
// Errors: a broken contract (group inserted twice, slot id out of range, victim settled twice or by
// the wrong call, class out of range) stops the process with CHECK.
// Thread: none; one owner calls everything.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "orlop/error.h"

namespace orlop {

// A group is named by the slot id of its first member; 0 = none.
using GroupRef = SlotId;

struct GroupInfo {
  GroupRef group;
  GroupRef parent;                    // 0 = root
  std::uint32_t members = 0;          // pages of the group, 1..65535 (16 bits in the slot row)
  std::uint32_t slot_size_pages = 0;  // slot size of its class in units of 4 KiB, >= 1
  std::uint16_t class_id = 0;         // size class, < Policy::kMaxClasses
};

// A group that was selected to leave. Whoever holds it decides its fate and must tell the policy
// once: freed, restored_pinned or obsolete. Dropping it unsettled stops the process.
class Victim {
 public:
  Victim(Victim&& other) noexcept;
  Victim& operator=(Victim&& other) noexcept;  // requires: *this is settled or moved from
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;
  ~Victim();

  GroupRef group() const { return group_; }
  std::uint16_t class_id() const { return class_id_; }
  std::uint32_t members() const { return members_; }
  std::uint64_t bytes() const { return bytes_; }  // members x slot size

 private:
  friend class Policy;
  Victim(GroupRef group, std::uint16_t class_id, std::uint32_t members, std::uint64_t bytes,
         std::uint32_t ticket)
      : group_(group), ticket_(ticket), members_(members), bytes_(bytes), class_id_(class_id) {}

  GroupRef group_;  // 0 = settled or moved from
  std::uint32_t ticket_;
  std::uint32_t members_;
  std::uint64_t bytes_;
  std::uint16_t class_id_;
};

class Policy {
 public:
  // Bound of GroupInfo::class_id; not below the number of size classes of a segment.
  static constexpr std::uint32_t kMaxClasses = 256;

  // In groups, since construction, except pending (now) and pending_bytes (now).
  struct Counters {
    std::uint64_t selected = 0;
    std::uint64_t freed = 0;
    std::uint64_t restored = 0;
    std::uint64_t obsolete = 0;
    std::uint64_t pending = 0;
    std::uint64_t pending_bytes = 0;  // on their way out: subtract from a deficit before asking
  };

  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;
  virtual ~Policy() = default;

  // The group became readable; it is the most recent one. Requires: not resident, not pinned, not
  // pending; slot_size_pages equal for all present groups of one class.
  virtual void inserted(const GroupInfo& info) = 0;

  // A touch. Touches are lossy hints: anything unknown (also ids out of range), pinned or pending
  // is ignored.
  virtual void accessed(GroupRef group) = 0;

  // A scan found the group pinned: it is not offered until unpinned(). Ignored unless resident and
  // not pinned (pending groups are settled with restored_pinned() instead).
  virtual void pinned(GroupRef group) = 0;

  // A scan found it no longer pinned: it comes back as the most recent. Ignored unless pinned.
  virtual void unpinned(GroupRef group) = 0;

  // The group left by another way (remove, flush, mismatch), or an awaited parent will not come.
  // Its children become roots. Its slot may be used for another group at once. If it was pending,
  // its Victim must then be settled with obsolete(). Ignored where nothing is known of it.
  virtual void removed(GroupRef group) = 0;

  // Appends victims of one class to `out`, least valuable first and children before parents, until
  // their bytes reach `bytes`, `max_groups` were selected, or nothing more may leave. Returns the
  // bytes selected by this call.
  virtual std::uint64_t evict_some(std::uint16_t class_id, std::uint64_t bytes,
                                   std::uint32_t max_groups, std::vector<Victim>& out) = 0;

  // A child of this victim is still resident: it was restored, or arrived after the selection. The
  // owner restores the parent too, or a chain with a hole is left (freed() then makes the children
  // roots). False for a victim whose group was removed().
  virtual bool has_resident_children(const Victim& victim) const = 0;

  // The three ends of a victim. freed: its slots are free. restored_pinned: it stays, pinned (until
  // unpinned()). obsolete: its generation changed meanwhile, the group is gone anyway.
  virtual void freed(Victim&& victim) = 0;
  virtual void restored_pinned(Victim&& victim) = 0;
  virtual void obsolete(Victim&& victim) = 0;

  // How long the class's least valuable evictable group has been idle, as a point on the policy's
  // own clock, which counts inserts and accesses of all classes: lower = older, comparable between
  // classes. A hint of limited resolution, for choosing the class that gives up a slab. Nothing
  // evictable = nullopt.
  virtual std::optional<std::uint64_t> oldest(std::uint16_t class_id) const = 0;

  // Bytes (members x slot size) of the class's groups that are resident: pinned ones included,
  // pending ones not.
  virtual std::uint64_t resident_bytes(std::uint16_t class_id) const = 0;

  // The name make_policy() knows it by.
  virtual std::string_view name() const = 0;

  // Checks every invariant, O(groups). Stops the process when one is broken. For tests.
  virtual void validate() const = 0;

  const Counters& counters() const { return counters_; }

 protected:
  enum class Fate : std::uint8_t { kFreed, kRestored, kObsolete };

  Policy() = default;

  // Selection and settlement go through these, so that the counters cannot drift from the handles.
  // `ticket` is the policy's own number of the selection.
  Victim select(GroupRef group, std::uint16_t class_id, std::uint32_t members, std::uint64_t bytes,
                std::uint32_t ticket);
  static std::uint32_t ticket_of(const Victim& victim);  // requires: not settled
  void settle(Victim& victim, Fate fate);
  void validate_counters() const;

 private:
  Counters counters_;
};

// The names make_policy() accepts, in a fixed order.
std::span<const std::string_view> policy_names();

// A policy for a segment whose slot ids are 1..max_slot_id. Address space is reserved for all ids;
// memory is taken only for ids that are used.
// Errors: kInvalidArgument when the name is unknown; the message lists the known ones.
Result<std::unique_ptr<Policy>> make_policy(std::string_view name, std::uint32_t max_slot_id);

}  // namespace orlop
