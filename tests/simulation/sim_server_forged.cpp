// SPDX-License-Identifier: Apache-2.0
// Clients with a fault: a commit or an abort that comes again, at once or late, with other
// checksums, or from a stranger. It must change nothing. Also what every commit must have done.
#include <utility>
#include <variant>

#include "base/sometimes.h"
#include "segment/key_index.h"
#include "sim_server.h"
#include "world.h"

namespace orlop::simulation {

namespace event = protocol::event;

namespace {
constexpr std::size_t kMostPast = 32;
}

void SimServer::remember(const protocol::NodeEvent& asked) {
  PastRequest past;
  if (const auto* commit = std::get_if<event::PutCommit>(&asked)) {
    past = {commit->client, commit->put, true, {commit->entries.begin(), commit->entries.end()}};
  } else if (const auto* abort = std::get_if<event::PutAbort>(&asked)) {
    past = {abort->client, abort->put};
  } else {
    return;
  }
  if (my_->past.size() < kMostPast) {
    my_->past.push_back(std::move(past));
  } else {
    my_->past[world_.rng.uniform(kMostPast)] = std::move(past);
  }
}

void SimServer::send_again() {
  if (my_->past.empty() || my_->clients.empty()) return;
  PastRequest past =
      world_.roll(500) ? my_->past.back() : my_->past[world_.rng.uniform(my_->past.size())];
  const ClientId owner = past.client;
  if (world_.roll(200))
    past.client = std::next(my_->clients.begin(),
                            static_cast<std::ptrdiff_t>(world_.rng.uniform(my_->clients.size())))
                      ->first;
  if (world_.roll(300)) {
    for (protocol::CommitEntry& entry : past.entries) entry.checksum ^= 1;
    if (past.client == owner) world_.segment().slots.contradicted(past.put);
  }
  // Whose rings are gone, nobody reads for it.
  const auto end = my_->clients.find(past.client);
  if (end == my_->clients.end() || !end->second.rings) return;
  world_.note("client " + std::to_string(past.client.value) + " sends again " +
              (past.commit ? "commit " : "abort ") + std::to_string(past.put.value & 0xffffffff) +
              " of client " + std::to_string(owner.value));
  SOMETIMES(past.client != owner, "sim: a stranger ends a put");
  SOMETIMES(past.client == owner && past.commit, "sim: a commit is sent again");
  SOMETIMES(past.client == owner && !past.commit, "sim: an abort is sent again");
  const std::uint64_t stranger = past.client == owner ? 0 : kForged >> 1;
  const RequestId request{kForged | stranger | my_->next_forged++};
  if (past.commit) {
    feed(event::PutCommit{past.client, request, past.put, past.entries});
  } else {
    feed(event::PutAbort{past.client, request, past.put});
  }
}

void SimServer::check_forged(const protocol::NodeAnswer& answer) {
  const bool stranger = (answer.request.value & (kForged >> 1)) != 0;
  if (stranger == (answer.status == protocol::kStatusOk))
    world_.verdict.broken(Oracle::kAnswers, stranger
                                                ? "a stranger could end a put"
                                                : "a commit or abort that comes again is an error");
}

// Stored means readable in this very step; it may have been evicted in it, but waits for nothing.
void SimServer::check_commit(const event::PutCommit& asked, const protocol::NodeEffects& effects) {
  const Unobserved quiet;
  for (const protocol::NodeAnswer& answer : effects.answers) {
    if (answer.request != asked.request || answer.client != asked.client ||
        answer.status != protocol::kStatusOk)
      continue;
    for (std::uint32_t i = 0; i < answer.count; ++i) {
      if (effects.outcomes[answer.first_outcome + i] != Outcome::kStored) continue;
      const SlotId slot{asked.entries[i].slot};
      const segment::SlotRow& row = world_.segment().area().slot(slot);
      const segment::SlotWord word = row.load_word();
      if (word.generation.value != asked.entries[i].generation ||
          word.state == segment::SlotState::kFree || word.state == segment::SlotState::kRetiring)
        continue;  // evicted again
      const segment::IndexHit hit =
          segment::index_find(world_.segment().area(), world_.segment().area().index_word(),
                              row.load_key(), row.load_ns());
      if (word.state != segment::SlotState::kCommitted)
        world_.verdict.broken(Oracle::kV3, "commit: stored, but slot " +
                                               std::to_string(slot.value) + " is not Committed");
      if (hit.slot != slot)
        world_.verdict.broken(Oracle::kV1, "commit: stored, but slot " +
                                               std::to_string(slot.value) + " is not to be found");
    }
  }
}

}  // namespace orlop::simulation
