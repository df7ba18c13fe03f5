// SPDX-License-Identifier: Apache-2.0
// A client's read plans: pinned without asking, checked from the pin to the release.
#include <algorithm>
#include <utility>

#include "base/sometimes.h"
#include "segment/missed_ring.h"
#include "sim_client.h"
#include "world.h"

namespace orlop::simulation {

namespace {
constexpr std::size_t kMostReads = 6;
}

bool SimClient::reserve_cells(std::uint32_t count, std::vector<std::uint32_t>& cells) {
  segment::ThreadLedger& thread = my_->threads[world_.rng.uniform(my_->threads.size())];
  if (world_.roll(50)) {
    std::vector<std::uint32_t> unused;
    thread.reclaim(static_cast<std::uint32_t>(world_.rng.uniform(2)), unused);
    my_->chunks->give_back(unused);
  }
  const std::uint32_t missing = thread.chunks_missing(count);
  std::vector<std::uint32_t> taken;
  my_->chunks->take(missing, taken);
  thread.adopt(taken);
  return thread.reserve(count, cells);
}

void SimClient::start_read(const Pages& pages) {
  const auto [ns, first, count] = pages;
  if (my_->reads.size() >= kMostReads && !world_.calm()) return;
  // The node counts on the library to keep to the cap.
  const std::uint64_t bytes = count * segment::slot_bytes(world_.options.value_len[ns]);
  if (my_->pinned_bytes + bytes >
      my_->area.header().pin_cap_bytes.load(std::memory_order_relaxed)) {
    SOMETIMES(true, "sim: pin budget");
    return;
  }
  ReadPlan plan;
  plan.ns = ns;
  if (!reserve_cells(count, plan.cells)) {
    SOMETIMES(true, "sim: ledger full");
    return;
  }
  std::vector<std::uint64_t> floors;
  for (std::uint32_t i = 0; i < count; ++i) {
    plan.keys.push_back(key(ns, first + i));
    floors.push_back(segment().removals.floor(*my_->rows[ns], plan.keys.back()));
  }
  plan.index = my_->area.current_index(*my_->rows[ns]);
  plan.pinned.resize(count);
  const Sequence begun = segment().slots.now();
  const std::uint32_t epoch = index_epoch();
  world_.interrupt_soon(*family().process);  // between look-up, cell and second look
  const segment::PinResult result =
      segment::pin_prefix(my_->area, my_->channel, plan.cells, plan.keys, plan.index, plan.pinned);
  if (result.stop == segment::PinStop::kNotFound) {
    segment().slots.not_found(plan.keys[result.pinned], plan.index, begun, index_epoch() - epoch);
    segment::write_missed(my_->channel, {plan.keys[result.pinned], *my_->rows[ns]});
  }
  SOMETIMES(result.pinned > 1, "sim: several pages pinned");
  SOMETIMES(result.pinned == 0, "sim: nothing pinned");
  const std::uint32_t sound = sound_prefix(plan, result.pinned);
  // A reader's own groups: what lies beyond the last whole one goes back at once.
  const std::uint32_t group = world_.roll(300) ? 3 : 1;
  const std::uint32_t kept_pages = sound - sound % group;
  SOMETIMES(kept_pages < result.pinned, "sim: a read is rounded down to whole groups");
  if (kept_pages < result.pinned)
    segment::release_cells(my_->channel,
                           std::span(plan.cells).subspan(kept_pages, result.pinned - kept_pages));
  plan.cells.resize(kept_pages);
  plan.keys.resize(kept_pages);
  plan.pinned.resize(kept_pages);
  if (kept_pages == 0) return count_cells();
  my_->pinned_bytes += kept_pages * segment::slot_bytes(world_.options.value_len[ns]);
  for (const segment::PinnedSlot& page : plan.pinned)
    segment().slots.reader_begins(page.slot, page.generation);
  family().pins[next_read_] = plan.pinned;
  check_pinned(plan, floors);
  const ReadPlan& kept = my_->reads.emplace(next_read_++, std::move(plan)).first->second;
  if (world_.roll(700)) segment::touch(my_->channel, kept.pinned);
  count_cells();
}

void SimClient::pin_all() {
  run_as(
      *family().process, world_,
      [this] {
        for (std::uint32_t ns = 0; ns < world_.options.namespaces(); ++ns)
          for (std::uint32_t page = 0; page < world_.options.keys; ++page)
            start_read({ns, page, 1});
      },
      [this] { my_.reset(); });
}

// What a read does not return is not pinned.
void SimClient::count_cells() {
  const Unobserved quiet;
  std::size_t wanted = 0, found = 0;
  for (const auto& [id, plan] : my_->reads) wanted += plan.cells.size();
  segment::for_each_held_cell(my_->channel, [&found](segment::LedgerCell) { ++found; });
  if (found != wanted)
    broken(Oracle::kG5, "its ledger holds " + std::to_string(found) + " cells, its read plans " +
                            std::to_string(wanted));
}

std::uint32_t SimClient::index_epoch() const {
  const Unobserved quiet;
  return my_->area.index_word().epoch;
}

// As the library does: a row of another length than the namespace's is not believed.
std::uint32_t SimClient::sound_prefix(const ReadPlan& plan, std::uint32_t pinned) {
  for (std::uint32_t i = 0; i < pinned; ++i) {
    const segment::PinnedSlot& page = plan.pinned[i];
    if (page.value_len == world_.options.value_len[plan.ns]) continue;
    if (!segment().slots.corrupted(page.slot, page.generation))
      broken(Oracle::kBytes, "a row has another length than its namespace");
    return i;
  }
  return pinned;
}

void SimClient::check_pinned(ReadPlan& plan, const std::vector<std::uint64_t>& floors) {
  const Unobserved quiet;
  for (std::size_t i = 0; i < plan.pinned.size(); ++i) {
    const segment::PinnedSlot& page = plan.pinned[i];
    const std::string name = "slot " + std::to_string(page.slot.value);
    if (segment().slots.corrupted(page.slot, page.generation)) continue;
    if (!my_->area.slot(page.slot).has_identity(plan.keys[i], plan.index) ||
        page.value_len != world_.options.value_len[plan.ns])
      return broken(Oracle::kBytes, "pinned " + name + " of another identity");
    if (segment().slots.readable_since(page.slot, page.generation) <= floors[i])
      return broken(Oracle::kRemoved, "pinned " + name + ", which was removed or flushed before");
    check_bytes(plan, i);
  }
}

void SimClient::check_bytes(const ReadPlan& plan, std::size_t i) {
  const segment::PinnedSlot& page = plan.pinned[i];
  if (segment().slots.corrupted(page.slot, page.generation)) return;
  const ValueIdentity identity{plan.keys[i], plan.ns};
  const std::span<const std::byte> value = segment().memory.value(page.slot, page.value_len);
  if (!value_is_right(identity, value, 0, value.size()) ||
      page.checksum != value_checksum(identity, value))
    broken(Oracle::kBytes, "wrong bytes in pinned slot " + std::to_string(page.slot.value));
}

void SimClient::advance_reads() {
  std::vector<std::uint64_t> open;
  for (const auto& [id, plan] : my_->reads) open.push_back(id);
  for (const std::uint64_t id : open) {
    ReadPlan& plan = my_->reads.at(id);
    const std::size_t page = world_.rng.uniform(plan.pinned.size());
    check_bytes(plan, page);
    if (plan.ended) continue;
    if (world_.fault(world_.options.false_report)) report_mismatch(plan, false);
    if (world_.fault(world_.options.corrupted)) report_mismatch(plan, true);
    const bool hurry = my_->leaving || world_.calm();
    if (!hurry && world_.roll(200) && plan.life.register_copy()) {
      ++plan.copies;
      const segment::PinnedSlot& slot = plan.pinned[page];
      family().device.queue({.read_plan = id,
                             .slot = slot.slot,
                             .generation = slot.generation,
                             .identity = {plan.keys[page], plan.ns},
                             .value = segment().memory.value(slot.slot, slot.value_len)});
    } else if (world_.roll(hurry ? 500 : 100)) {
      end_read(id, plan);
    }
  }
}

void SimClient::end_read(std::uint64_t id, ReadPlan& plan) {
  plan.ended = true;
  SOMETIMES(plan.copies > 0, "sim: read plan ended with copies queued");
  if (plan.life.end()) release(id);
}

// Its cells are zeroed; what the oracle holds against a reuse ends when no copy is left.
void SimClient::release(std::uint64_t id) {
  ReadPlan& plan = my_->reads.at(id);
  for (std::size_t i = 0; i < plan.pinned.size(); ++i) check_bytes(plan, i);
  if (plan.copies == 0) {
    for (const segment::PinnedSlot& page : plan.pinned)
      segment().slots.reader_ends(page.slot, page.generation);
    family().pins.erase(id);
  }
  my_->pinned_bytes -= plan.pinned.size() * segment::slot_bytes(world_.options.value_len[plan.ns]);
  const std::vector<std::uint32_t> cells = plan.cells;
  my_->reads.erase(id);
  segment::release_cells(my_->channel, cells);
}

void SimClient::read_finished(const Copy& copy) {
  const auto found = my_->reads.find(copy.read_plan);
  if (found == my_->reads.end())
    return broken(Oracle::kS2, "a copy of a read plan that is over finished");
  ReadPlan& plan = found->second;
  --plan.copies;
  if (copy.wrong && !segment().slots.corrupted(copy.slot, copy.generation))
    broken(Oracle::kBytes, "a copy read wrong bytes from slot " + std::to_string(copy.slot.value));
  if (plan.life.copy_done(!copy.failed).ended) release(copy.read_plan);
}

// scribble: it really is wrong, because this client wrote into it.
void SimClient::report_mismatch(const ReadPlan& plan, bool scribble) {
  const std::size_t i = world_.rng.uniform(plan.pinned.size());
  const segment::PinnedSlot& page = plan.pinned[i];
  if (scribble) {
    segment().slots.corrupt(page.slot, page.generation);
    segment().memory.value(page.slot, page.value_len)[0] ^= std::byte{1};
  }
  world_.note(name() + " reports a mismatch in slot " + std::to_string(page.slot.value) +
              (scribble ? ", truly" : ", falsely"));
  session().report({.key = plan.keys[i],
                    .ns = plan.index.value,
                    .slot = page.slot.value,
                    .generation = page.generation.value});
}

void SimClient::take_finished_copies() {
  for (const Copy& copy : family().device.take_finished())
    copy.writes ? write_finished(copy) : read_finished(copy);
}

}  // namespace orlop::simulation
