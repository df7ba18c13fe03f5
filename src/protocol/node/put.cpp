// SPDX-License-Identifier: Apache-2.0
// put_start: check, classify every key, decide by group, give memory.
//
// Nothing is reserved before everything is checked. What a put is going to get is planned without a
// side effect (plan_put), so that a put that waits for memory can simply be planned again.
#include <algorithm>

#include "protocol/node/node_state.h"

namespace orlop::protocol {
namespace {

// Calls visit(first key, length, number) for each group in order.
template <class Visit>
void for_each_group(const event::PutStart& put, Visit&& visit) {
  if (put.group_lens.empty()) {
    const auto keys = static_cast<std::uint32_t>(put.keys.size());
    for (std::uint32_t i = 0; i < keys; ++i) visit(i, 1u, i);
    return;
  }
  std::uint32_t first = 0, number = 0;
  for (const std::uint32_t length : put.group_lens) {
    visit(first, length, number++);
    first += length;
  }
}

std::optional<std::string> refuse_groups(const event::PutStart& put) {
  if (put.group_lens.empty()) return std::nullopt;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < put.group_lens.size(); ++i) {
    if (put.group_lens[i] == 0)
      return "atomic_group_lens[" + std::to_string(i) + "] is 0; every group has a page";
    sum += put.group_lens[i];
  }
  if (sum != put.keys.size()) {
    return "atomic_group_lens add up to " + std::to_string(sum) + ", but there are " +
           std::to_string(put.keys.size()) + " keys";
  }
  return std::nullopt;
}

}  // namespace

// Why the put is refused as a whole; nullopt = it is well formed.
std::optional<std::string> Node::refuse_put(const event::PutStart& put) {
  if (owner_of(put.put) != put.client) return "put id belongs to another client";
  if (put.keys.empty()) return "keys is empty; a put has 1 to 65,535 keys";
  if (put.keys.size() > kMaxKeysPerPut) {
    return "keys has " + std::to_string(put.keys.size()) +
           " entries; a put has 1 to 65,535 keys: split it";
  }
  if (auto text = refuse_row(put.row)) return text;
  const std::uint32_t value_len = area_.namespace_row(put.row).value_len;
  if (put.value_len != value_len) {
    return "value_len is " + std::to_string(put.value_len) +
           ", but the namespace was opened with " + std::to_string(value_len);
  }
  if (auto text = refuse_groups(put)) return text;
  if (const auto twice = duplicates_.find(put.keys)) {
    return "keys[" + std::to_string(twice->second) + "] equals keys[" +
           std::to_string(twice->first) + "]; the keys of a put are unique";
  }
  if (puts_.contains(put.put) || is_waiting(put.put))
    return "put id is in use; ids are never used twice";
  return std::nullopt;
}

void Node::handle(const event::PutStart& e, MonoNs now, NodeEffects& effects) {
  ClientRecord* client = find_client(e.client);
  if (client == nullptr) return;
  ++counters_.put_starts;
  counters_.keys_offered += e.keys.size();
  if (auto text = refuse_put(e)) {
    answer_error(effects, e.client, e.request, RequestCode::kPutStart, ErrorCode::kInvalidArgument,
                 std::move(*text));
    return;
  }
  std::uint32_t missed = kMissedPerEvent;
  drain_missed(*client, missed);
  NamespaceTraffic& traffic = rows_[e.row.value].traffic;
  traffic.keys_offered += e.keys.size();
  traffic.last_put = now;
  refill_due_ = true;
  const NamespaceIndex ns = area_.current_index(e.row);
  const MonoNs deadline = now + std::min(e.wait_budget, config_.max_space_wait);
  const bool behind = has_waiting(*classes_.find(slot_pages_for(e.value_len)));
  if (try_put(e, ns, *client, now, deadline > now && may_enqueue(e), behind, effects)) return;
  enqueue(e, ns, deadline);
}

bool Node::blocked_by_writer(const KeyId& key, NamespaceIndex ns, MonoNs now) {
  const SlotId slot = in_flight_.find(key, ns);
  if (!slot) return false;
  const auto put = puts_.find(area_.slot(slot).load_put());
  CHECK(put != puts_.end(), "a Prepared slot belongs to an open put");
  if (now - put->second.started < config_.writer_key_hold) return true;
  SOMETIMES(true, "a stopped writer's key is taken over");
  put->second.contended = true;
  plan_.contended = true;
  return false;
}

void Node::plan_put(const event::PutStart& put, NamespaceIndex ns, const ClientRecord& client,
                    MonoNs now) {
  constexpr std::size_t kAhead = 8;  // buckets are cold and lie anywhere
  const std::size_t keys = put.keys.size();
  const segment::IndexWord word = area_.index_word();
  plan_.outcomes.assign(keys, Outcome::kPrepared);
  plan_.readable.assign(keys, SlotId{});
  plan_.contended = false;
  const bool any_writer = in_flight_.size() != 0;
  for (std::size_t i = 0; i < std::min(kAhead, keys); ++i)
    segment::index_prefetch(area_, word, put.keys[i], ns);
  for (std::size_t i = 0; i < keys; ++i) {
    if (i + kAhead < keys) segment::index_prefetch(area_, word, put.keys[i + kAhead], ns);
    plan_.readable[i] = segment::index_find(area_, word, put.keys[i], ns).slot;
    if (plan_.readable[i]) {
      plan_.outcomes[i] = Outcome::kExists;
    } else if (any_writer && blocked_by_writer(put.keys[i], ns, now)) {
      plan_.outcomes[i] = Outcome::kInFlight;
    }
  }
  decide_groups(put, client);
}

// A group gets memory whole or not at all, and no group after the first that is over the quota.
void Node::decide_groups(const event::PutStart& put, const ClientRecord& client) {
  const std::uint64_t slot_bytes = segment::slot_bytes(put.value_len);
  const std::uint64_t allowed =
      config_.prepared_cap_bytes > client.prepared_bytes
          ? (config_.prepared_cap_bytes - client.prepared_bytes) / slot_bytes
          : 0;
  plan_.wanted = 0;
  plan_.over_quota = client.open_puts >= kMaxHeldPuts;
  plan_.not_admitted = false;
  for_each_group(put, [&](std::uint32_t first, std::uint32_t length, std::uint32_t) {
    const auto begin = plan_.outcomes.begin() + first;
    if (length > 1) {
      const auto end = begin + length;
      if (std::any_of(begin, end, [](Outcome o) { return o != Outcome::kPrepared; }))
        std::replace(begin, end, Outcome::kPrepared, Outcome::kGroupSplit);
    }
    if (*begin != Outcome::kPrepared) return;
    if (draining_) {
      plan_.not_admitted = true;
      std::fill_n(begin, length, Outcome::kNotAdmitted);
      return;
    }
    if (plan_.wanted + std::uint64_t{length} > allowed && !PLANTED(kPreparedCapIgnored))
      plan_.over_quota = true;
    if (plan_.over_quota) {
      std::fill_n(begin, length, Outcome::kOverQuota);
    } else {
      plan_.wanted += length;
    }
  });
}

// Answers the put unless it should wait. behind: others wait for this class already.
bool Node::try_put(const event::PutStart& put, NamespaceIndex ns, ClientRecord& client, MonoNs now,
                   bool may_wait, bool behind, NodeEffects& effects) {
  plan_put(put, ns, client, now);
  if (plan_.wanted > 0) {
    if (behind && may_wait) return false;
    const SizeClass size_class = *classes_.find(slot_pages_for(put.value_len));
    if (available(size_class) < plan_.wanted) {
      make_room(size_class, plan_.wanted, now);
      // Eviction may have taken what this put counted on as `exists`.
      plan_put(put, ns, client, now);
      if (may_wait && available(size_class) < plan_.wanted) return false;
    }
  }
  grant_put(put, ns, client, now, effects);
  return true;
}

void Node::grant_put(const event::PutStart& put, NamespaceIndex ns, ClientRecord& client,
                     MonoNs now, NodeEffects& effects) {
  plan_.taken.clear();
  if (plan_.wanted > 0) allocator_.take(put.value_len, plan_.wanted, plan_.taken);
  for (const SlotId slot : plan_.taken) __builtin_prefetch(&area_.slot(slot), 1);
  if (const std::uint64_t assigned = allocator_.assigned_slots(); assigned > indexed_slots_) {
    indexed_slots_ = assigned;
    index_.ensure_capacity(assigned);
  }
  const auto first_grant = static_cast<std::uint32_t>(effects.grants.size());
  effects.grants.resize(effects.grants.size() + put.keys.size());
  const std::span grants(effects.grants.data() + first_grant, put.keys.size());

  PutRecord record;
  record.id = put.put;
  record.client = &client;
  record.ns = ns;
  record.row = put.row.value;
  record.started = now;
  record.slot_bytes = segment::slot_bytes(put.value_len);
  record.contended = plan_.contended;
  record.leaders.reserve(plan_.taken.size());
  Ancestor ancestor;
  if (put.parent) {
    const auto hit = segment::index_find(area_, area_.index_word(), *put.parent, ns);
    if (hit.slot) ancestor = {hit.slot, hit.word.generation};
  }
  segment::SlotFields fields;
  fields.value_len = put.value_len;
  fields.ns = ns;
  fields.put = put.put;
  std::uint32_t used = 0;
  bool no_space = false;
  for_each_group(put, [&](std::uint32_t first, std::uint32_t length, std::uint32_t number) {
    if (plan_.outcomes[first] == Outcome::kPrepared) {
      no_space = no_space || used + length > plan_.taken.size();
      if (no_space) {
        std::fill_n(plan_.outcomes.begin() + first, length, Outcome::kNoSpace);
        return;
      }
      fields.group.length = static_cast<std::uint16_t>(length);
      fields.group.group_number = static_cast<std::uint16_t>(number);
      fields.group.parent = ancestor.slot;
      fields.group.parent_generation = static_cast<std::uint16_t>(ancestor.generation.value);
      grant_group(put, first, used, fields, record, now, grants);
      used += length;
      ancestor = {plan_.taken[used - 1], Generation{grants[first + length - 1].generation}};
      return;
    }
    // A key that is here already is an ancestor too; one that is being written is passed over.
    for (std::uint32_t i = first; i < first + length; ++i) {
      if (const SlotId slot = plan_.readable[i])
        ancestor = {slot, area_.slot(slot).load_word(std::memory_order_relaxed).generation};
    }
  });
  for (std::size_t i = used; i < plan_.taken.size(); ++i) allocator_.give_back(plan_.taken[i]);
  if (record.open_slots > 0) {
    puts_.emplace(put.put, std::move(record));
    ++client.open_puts;
  }
  answer_put(put, client, no_space, first_grant, effects);
}

// fields: of the group's first member, all but its key.
void Node::grant_group(const event::PutStart& put, std::uint32_t first, std::uint32_t first_taken,
                       segment::SlotFields& fields, PutRecord& record, MonoNs now,
                       std::span<SlotGrant> grants) {
  const SlotId leader = plan_.taken[first_taken];
  const std::uint32_t length = fields.group.length;
  for (std::uint32_t i = 0; i < length; ++i) {
    const SlotId slot = plan_.taken[first_taken + i];
    const SlotId next = i + 1 < length ? plan_.taken[first_taken + i + 1] : SlotId{};
    fields.key = put.keys[first + i];
    fields.group.index = static_cast<std::uint16_t>(i);
    grants[first + i] = {slot.value, prepare_slot(slot, leader, next, fields, record, now).value};
  }
  record.leaders.push_back(leader);
}

// Of plan_; and remembers who got nothing, so that a later miss has a cause.
void Node::count_outcomes(const event::PutStart& put) {
  NamespaceTraffic& traffic = rows_[put.row.value].traffic;
  const NamespaceIndex ns = area_.current_index(put.row);
  for (std::size_t i = 0; i < plan_.outcomes.size(); ++i) {
    const Outcome outcome = plan_.outcomes[i];
    ++counters_.outcomes[static_cast<std::size_t>(outcome)];
    ++traffic.outcomes[static_cast<std::size_t>(outcome)];
    if (outcome == Outcome::kNoSpace || outcome == Outcome::kOverQuota ||
        outcome == Outcome::kNotAdmitted)
      gone_.left(put.keys[i], ns, MissCause::kRefused, now_);
  }
}

void Node::answer_put(const event::PutStart& put, const ClientRecord& client, bool no_space,
                      std::uint32_t first_grant, NodeEffects& effects) {
  NodeAnswer& to = answer(effects, put.client, put.request, RequestCode::kPutStart);
  to.first_grant = first_grant;
  to.first_outcome = static_cast<std::uint32_t>(effects.outcomes.size());
  to.count = static_cast<std::uint32_t>(put.keys.size());
  effects.outcomes.insert(effects.outcomes.end(), plan_.outcomes.begin(), plan_.outcomes.end());
  count_outcomes(put);
  std::string text;
  if (no_space) text = describe_pool(*classes_.find(slot_pages_for(put.value_len)));
  if (plan_.over_quota) {
    if (!text.empty()) text += "; ";
    text += describe_quota(client);
  }
  if (plan_.not_admitted) text = kDrainingText;
  if (!text.empty()) attach_text(effects, to, std::move(text));
}

}  // namespace orlop::protocol
