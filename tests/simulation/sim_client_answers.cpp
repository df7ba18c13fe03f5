// SPDX-License-Identifier: Apache-2.0
// What comes back from the node, held against what was asked.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/sometimes.h"
#include "sim_client.h"
#include "world.h"

namespace orlop::simulation {

using protocol::Answer;
using protocol::RequestCode;
using protocol::Session;

namespace {

// Number of each key's group; lens empty: a group each.
std::vector<std::uint32_t> group_numbers(std::size_t keys, const std::vector<std::uint32_t>& lens) {
  std::vector<std::uint32_t> numbers;
  for (std::size_t i = 0; i < lens.size(); ++i)
    numbers.insert(numbers.end(), lens[i], static_cast<std::uint32_t>(i));
  while (numbers.size() < keys) numbers.push_back(static_cast<std::uint32_t>(numbers.size()));
  return numbers;
}

}  // namespace

void SimClient::consume() {
  Answer answer;
  for (;;) {
    switch (session().next(&answer)) {
      case Session::Next::kNone:
        return;
      case Session::Next::kBroken:
        return broken(Oracle::kAnswers, "the node wrote nonsense into the response ring");
      case Session::Next::kAnswer:
        answered(answer);
        if (!my_->session) return;
    }
  }
}

void SimClient::answered(const Answer& answer) {
  const auto found = my_->operations.find(answer.cookie);
  if (found == my_->operations.end() || found->second.code != answer.code)
    return broken(Oracle::kAnswers, "an answer that nobody waits for");
  const Operation asked = std::move(found->second);
  my_->operations.erase(found);
  switch (answer.code) {
    case RequestCode::kOpenNamespace:
      if (answer.status != protocol::kStatusOk)
        return broken(Oracle::kAnswers, "open: " + answer.text);
      my_->rows[asked.ns] = NamespaceRow{static_cast<std::uint32_t>(answer.args[0])};
      return;
    case RequestCode::kPutStart:
      if (answer.status != protocol::kStatusOk)
        return broken(Oracle::kAnswers, "put_start: " + answer.text);
      return put_started(asked, answer);
    case RequestCode::kPutCommit:
      if (answer.status != protocol::kStatusOk)
        return broken(Oracle::kAnswers, "commit: " + answer.text);
      return committed(asked, answer);
    case RequestCode::kRemove:
    case RequestCode::kFlush:
      if (answer.status != protocol::kStatusOk)
        return broken(Oracle::kAnswers, "remove, flush: " + answer.text);
      return segment().removals.closed(asked.removal, true, segment().slots.now());
    case RequestCode::kDrain:
      if (answer.status != protocol::kStatusOk)
        return broken(Oracle::kAnswers, "drain: " + answer.text);
      return segment().drains.answered(asked.drain, answer.args[0] == 1);
    case RequestCode::kDetach:
      return detached();
    default:
      return;
  }
}

void SimClient::put_started(const Operation& asked, const Answer& answer) {
  PutPlan plan;
  plan.ns = asked.ns;
  plan.last_put = asked.last_put;
  plan.begun = asked.begun;
  const std::vector<std::uint32_t> groups = group_numbers(asked.keys.size(), asked.group_lens);
  const std::optional<bool> draining = segment().drains.since(asked.drain);
  for (std::size_t i = 0; i < asked.keys.size(); ++i) {
    const protocol::SlotGrant grant = answer.grants[i];
    const Outcome outcome = answer.outcomes[i];
    const bool granted = grant.slot != 0;
    if (granted != (outcome == Outcome::kPrepared))
      broken(Oracle::kAnswers, "put_start: outcome and memory of a key disagree");
    if (i > 0 && groups[i] == groups[i - 1] && granted != (answer.grants[i - 1].slot != 0))
      broken(Oracle::kA1, "put_start: half a group was given memory");
    if (granted && draining == true)
      broken(Oracle::kDrain, "put_start: memory was given while the node drains");
    if (outcome == Outcome::kNotAdmitted && draining == false)
      broken(Oracle::kDrain, "put_start: not admitted, but the node does not drain");
    SOMETIMES(outcome == Outcome::kNotAdmitted, "sim: not admitted");
    SOMETIMES(outcome == Outcome::kNoSpace, "sim: no space");
    SOMETIMES(outcome == Outcome::kInFlight, "sim: key in flight");
    SOMETIMES(outcome == Outcome::kGroupSplit, "sim: group split");
    SOMETIMES(outcome == Outcome::kOverQuota, "sim: over quota");
    if (!granted) continue;
    plan.entries.push_back({grant.slot, grant.generation, 0});
    plan.keys.push_back(asked.keys[i]);
    plan.entry_groups.push_back(groups[i]);
  }
  world_.note(name() + " put_start " + std::to_string(answer.put.value & 0xffffffff) + " ns " +
              std::to_string(asked.ns) + ": " + std::to_string(plan.entries.size()) + " of " +
              std::to_string(asked.keys.size()) + " granted, first " +
              std::string(to_string(answer.outcomes[0])) + " " + answer.text);
  if (plan.entries.empty()) return;
  const PutId put = answer.put;
  family().writing.push_back(put);
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    const protocol::CommitEntry& entry = plan.entries[i];
    const SlotId slot{entry.slot};
    segment().slots.writer_begins(put, slot, Generation{entry.generation}, plan.keys[i]);
    if (!session().register_copy(put)) broken(Oracle::kAnswers, "a fresh put takes no copies");
    ++plan.copies;
    family().device.queue(
        {.writes = true,
         .put = put,
         .slot = slot,
         .generation = Generation{entry.generation},
         .identity = {plan.keys[i], plan.ns},
         .value = segment().memory.value(slot, world_.options.value_len[plan.ns])});
  }
  const Unobserved quiet;
  plan.index = my_->area.slot(SlotId{plan.entries.front().slot}).load_ns();
  my_->puts.emplace(put, std::move(plan));
}

void SimClient::committed(const Operation& asked, const Answer& answer) {
  if (asked.order != my_->commits_answered + 1)
    broken(Oracle::kA2, "commits are answered out of order");
  my_->commits_answered = asked.order;
  world_.note(name() + " commit " + std::to_string(asked.put.value & 0xffffffff) + ": first " +
              std::string(to_string(answer.outcomes[0])));
  for (std::size_t i = 0; i < asked.entries.size(); ++i) {
    const Outcome outcome = answer.outcomes[i];
    const std::size_t before = i == 0 ? 0 : i - 1;
    const bool same_group = asked.entry_groups[i] == asked.entry_groups[before];
    if (same_group &&
        (outcome == Outcome::kStored) != (answer.outcomes[before] == Outcome::kStored))
      broken(Oracle::kA1, "commit: half a group is stored");
    const SlotId slot{asked.entries[i].slot};
    const Generation generation{asked.entries[i].generation};
    if (outcome == Outcome::kStored && segment().slots.readable_since(slot, generation) == 0)
      broken(Oracle::kV1, "commit: stored, but the slot never became readable");
    if (outcome == Outcome::kStored && asked.flushed)
      broken(Oracle::kRemoved, "commit: stored, though its namespace was flushed before");
    if (outcome == Outcome::kEvicted && !may_be_evicted(asked, i))
      broken(Oracle::kA2, "commit: the node lost Prepared slots of a put that was held");
    SOMETIMES(outcome == Outcome::kExists, "sim: a later writer committed first");
    SOMETIMES(outcome == Outcome::kFlushed, "sim: commit after a flush");
    SOMETIMES(outcome == Outcome::kEvicted, "sim: repeated commit of an evicted group");
    if (asked.last_put && outcome == Outcome::kStored) last_put_stored_ = true;
  }
}

// The node has nothing of the entry's group any more. That is right if it was readable once, or if
// an earlier commit of it was refused and the answer was lost with the server.
bool SimClient::may_be_evicted(const Operation& asked, std::size_t entry) const {
  for (std::size_t i = 0; i < asked.entries.size(); ++i) {
    if (asked.entry_groups[i] != asked.entry_groups[entry]) continue;
    const SlotId slot{asked.entries[i].slot};
    if (segment().slots.readable_since(slot, Generation{asked.entries[i].generation}) != 0 ||
        segment().slots.page_readable_since(asked.keys[i], asked.index, asked.begun) ||
        segment().removals.wanted_since(*my_->rows[asked.ns], KeyId{}, asked.begun))
      return true;
  }
  return false;
}

// Nobody waits for them any more; their answers come late.
void SimClient::abandon_late() {
  for (auto item = my_->operations.begin(); item != my_->operations.end();) {
    const Operation& operation = item->second;
    if (world_.now < operation.deadline || !operation.request) {
      ++item;
      continue;
    }
    if (!session().abandon(operation.request))
      broken(Oracle::kAnswers, "a request that waits was answered already");
    if (operation.removal != 0) my_->abandoned_removals.push_back(operation.removal);
    item = my_->operations.erase(item);
  }
}

}  // namespace orlop::simulation
