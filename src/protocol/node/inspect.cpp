// SPDX-License-Identifier: Apache-2.0
#include "protocol/node/inspect.h"

#include <algorithm>
#include <map>

#include "protocol/node/node_state.h"
#include "segment/ledger.h"

namespace orlop::protocol {

// ---- parts of one answer ----

void Holders::append(Holders part) {
  for (Holder& more : part.clients) {
    // Parts come in the order of clients, and may end inside one's ledger.
    if (!clients.empty() && clients.back().client == more.client) {
      clients.back().pages += more.pages;
    } else {
      clients.push_back(std::move(more));
    }
  }
  next = part.next;
}

void Held::append(const Held& part) {
  pages += part.pages;
  bytes += part.bytes;
  const auto order = [](const Pins& of_row) { return of_row.row ? of_row.row->value : ~0U; };
  for (const Pins& more : part.by_row) {
    const auto at = std::ranges::lower_bound(by_row, order(more), {}, order);
    if (at == by_row.end() || at->row != more.row) {
      by_row.insert(at, more);
    } else {
      at->pages += more.pages;
      at->bytes += more.bytes;
    }
  }
  const auto room = std::min<std::size_t>(part.some.size(), kInspectRows - some.size());
  some.insert(some.end(), part.some.begin(), part.some.begin() + static_cast<std::ptrdiff_t>(room));
  next = part.next;
}

// Reads the node's private state; a class of its own, so that nothing here can change it.
class Inspector {
 public:
  Inspector(const Node& node, MonoNs now) : node_(node), now_(now) {}

  InspectAnswer operator()(const question::SlotSums& q);
  InspectAnswer operator()(const question::SlotList& q);
  InspectAnswer operator()(const question::Key& q);
  InspectAnswer operator()(const question::Client& q);
  InspectAnswer operator()(const question::Holders& q) { return holders(q); }
  InspectAnswer operator()(const question::Held& q);

 private:
  // By row; flushed contents last.
  static constexpr std::uint32_t kNoRow = ~std::uint32_t{0};
  using NamespaceSums = std::map<std::uint32_t, SlotSums::Namespace>;

  static Error refuse(std::string text) { return {ErrorCode::kInvalidArgument, std::move(text)}; }
  std::optional<NamespaceRow> row_of(NamespaceIndex ns) const {
    const auto row = node_.row_of(ns);
    return row ? std::optional(NamespaceRow{*row}) : std::nullopt;
  }
  std::uint32_t slots_in(SlabId slab) const {
    const std::uint32_t pages = node_.allocator_.class_pages_of(slab);
    return pages == 0 ? 0 : node_.geometry_.ordinals_per_slab / pages;
  }
  std::uint32_t add_slab(SlabId slab, SlotSums::Class& sums, NamespaceSums& namespaces) const;
  SlotFacts facts_of(SlotId slot) const;
  void describe_group(SlotId slot, KeyFacts& facts) const;
  Holders holders(const question::Holders& q) const;
  bool pinned_by_node(SlotId slot, Generation generation) const;
  Held held(const ClientRecord& client, std::uint32_t chunk) const;
  Held::Page page_of(segment::LedgerCell cell) const;
  void describe_puts(ClientFacts& facts) const;

  const Node& node_;
  const MonoNs now_;
};

InspectAnswer Node::inspect(const InspectQuestion& question, MonoNs now) const {
  return std::visit(Inspector(*this, now), question);
}

// ---- slots ----

// Returns the slots looked at.
std::uint32_t Inspector::add_slab(SlabId slab, SlotSums::Class& sums,
                                  NamespaceSums& namespaces) const {
  const std::uint32_t slots = slots_in(slab);
  std::uint64_t run = 0, free = 0;
  for (std::uint32_t ordinal = 0; ordinal < slots; ++ordinal) {
    const SlotId slot = node_.geometry_.slot_id(slab, ordinal);
    const SlotRow& row = node_.area_.slot(slot);
    const SlotWord word = row.load_word(std::memory_order_relaxed);
    const auto state = static_cast<std::size_t>(word.state);
    ++sums.slots[state];
    if (word.state == SlotState::kFree) {
      ++free;
      if (++run == 1) ++sums.free_runs;
      sums.longest_free_run = std::max(sums.longest_free_run, run);
      continue;
    }
    run = 0;
    const auto ns = row_of(row.load_ns());
    SlotSums::Namespace& owner = namespaces[ns ? ns->value : kNoRow];
    owner.row = ns;
    ++owner.slots[state];
    owner.slot_bytes += std::uint64_t{sums.slot_pages} * segment::kMinSlotBytes;
    owner.value_bytes += row.load_value_len();
    sums.doomed += word.doomed() ? 1 : 0;
    owner.doomed += word.doomed() ? 1 : 0;
  }
  ++sums.slabs;
  sums.unused_slabs += free == slots ? 1 : 0;
  return slots;
}

InspectAnswer Inspector::operator()(const question::SlotSums& q) {
  const std::uint32_t slabs = node_.geometry_.slab_count;
  if (q.from.value >= slabs) {
    return refuse("slab " + std::to_string(q.from.value) + " does not exist; there are " +
                  std::to_string(slabs));
  }
  SlotSums sums;
  std::map<std::uint32_t, SlotSums::Class> classes;
  NamespaceSums namespaces;
  std::uint32_t looked_at = 0, slab = q.from.value;
  for (; slab < slabs && looked_at < kInspectSlots; ++slab) {
    const std::uint32_t pages = node_.allocator_.class_pages_of(SlabId{slab});
    if (pages == 0) {
      ++sums.common_slabs;
      ++looked_at;
      continue;
    }
    SlotSums::Class& size_class = classes[pages];
    size_class.slot_pages = pages;
    looked_at += add_slab(SlabId{slab}, size_class, namespaces);
  }
  for (auto& [pages, size_class] : classes) sums.classes.push_back(size_class);
  for (auto& [row, ns] : namespaces) sums.namespaces.push_back(ns);
  if (slab < slabs) sums.next = SlabId{slab};
  return sums;
}

InspectAnswer Inspector::operator()(const question::SlotList& q) {
  if (q.row) {
    if (auto text = node_.refuse_row(*q.row)) return refuse(std::move(*text));
  }
  if (q.after.value >= node_.geometry_.slot_rows) {
    return refuse("slot " + std::to_string(q.after.value) + " does not exist; the last one is " +
                  std::to_string(node_.geometry_.slot_rows - 1));
  }
  const std::uint32_t limit = std::min(std::max(q.limit, 1u), kInspectRows);
  SlotList list;
  // Slot ids begin at 1, so `after` is the place of the next one.
  std::uint32_t slab = q.after.value / node_.geometry_.ordinals_per_slab;
  std::uint32_t ordinal = q.after.value % node_.geometry_.ordinals_per_slab;
  for (std::uint32_t looked_at = 0; slab < node_.geometry_.slab_count; ++slab, ordinal = 0) {
    for (const std::uint32_t slots = slots_in(SlabId{slab}); ordinal < slots; ++ordinal) {
      if (list.slots.size() == limit || looked_at == kInspectSlots) {
        // Not 0, which would begin again: at least one slot was looked at.
        list.next = SlotId{node_.geometry_.slot_id(SlabId{slab}, ordinal).value - 1};
        return list;
      }
      ++looked_at;
      const SlotId slot = node_.geometry_.slot_id(SlabId{slab}, ordinal);
      if (node_.area_.slot(slot).load_word(std::memory_order_relaxed).state == SlotState::kFree)
        continue;
      if (!q.row || row_of(node_.area_.slot(slot).load_ns()) == q.row)
        list.slots.push_back(facts_of(slot));
    }
  }
  return list;
}

SlotFacts Inspector::facts_of(SlotId slot) const {
  const SlotRow& row = node_.area_.slot(slot);
  SlotFacts facts;
  facts.slot = slot;
  facts.word = row.load_word(std::memory_order_relaxed);
  facts.fields = row.load_fields();
  facts.checksum = row.load_checksum();
  facts.slot_bytes = node_.slot_bytes_of(slot);
  facts.row = row_of(facts.fields.ns);
  const auto steps = static_cast<std::uint16_t>(node_.coarse(now_) - facts.word.recency);
  facts.since_access = steps * kRecencyUnit;
  return facts;
}

// ---- one key ----

InspectAnswer Inspector::operator()(const question::Key& q) {
  if (auto text = node_.refuse_row(q.row)) return refuse(std::move(*text));
  const segment::ControlArea& area = node_.area_;
  const NamespaceIndex ns = area.current_index(q.row);
  KeyFacts facts;
  SlotId slot = segment::index_find(area, area.index_word(), q.key, ns).slot;
  if (!slot) slot = node_.in_flight_.find(q.key, ns);
  if (slot) {
    facts.slot = facts_of(slot);
    describe_group(slot, facts);
    facts.holders = holders({.slot = slot, .generation = facts.slot->word.generation});
    facts.node_pinned = pinned_by_node(slot, facts.slot->word.generation);
  } else {
    facts.left = node_.why_left(q.key, q.row.value, now_);
  }
  for (const std::uint32_t sibling : node_.families_[node_.rows_[q.row.value].family]) {
    if (sibling == q.row.value) continue;
    const NamespaceIndex index = area.current_index(NamespaceRow{sibling});
    if (segment::index_find(area, area.index_word(), q.key, index).slot)
      facts.also_in.push_back(NamespaceRow{sibling});
  }
  return facts;
}

void Inspector::describe_group(SlotId slot, KeyFacts& facts) const {
  const segment::GroupPlace& place = facts.slot->fields.group;
  facts.member_count = place.length;
  for (std::uint32_t id = node_.links_[slot.value].leader;
       id != 0 && facts.members.size() < kInspectRows; id = node_.links_[id].next)
    facts.members.push_back(SlotId{id});

  if (place.parent) {
    KeyFacts::Parent parent;
    parent.slot = place.parent;
    const bool known = node_.known_slot(place.parent);
    const SlotWord word =
        known ? node_.area_.slot(place.parent).load_word(std::memory_order_relaxed) : SlotWord{};
    parent.present = known && word.readable() &&
                     static_cast<std::uint16_t>(word.generation.value) == place.parent_generation;
    if (parent.present) parent.key = node_.area_.slot(place.parent).load_key();
    facts.parent = parent;
  }
  const PutId put = facts.slot->fields.put;
  facts.writer = owner_of(put);
  if (const auto writer = node_.clients_.find(facts.writer); writer != node_.clients_.end())
    facts.writer_name = writer->second.name;
  if (const auto open = node_.puts_.find(put); open != node_.puts_.end())
    facts.put_age = now_ - std::min(now_, open->second.started);
}

Holders Inspector::holders(const question::Holders& q) const {
  Holders part;
  std::uint32_t left = kHolderCells;
  for (auto at = node_.clients_.lower_bound(q.client); at != node_.clients_.end(); ++at) {
    const auto& [id, client] = *at;
    if (client.dead) continue;
    Holders::Holder holder{.client = id, .name = client.name};
    const std::uint32_t next = segment::for_some_held_cells(
        client.channel, id == q.client ? q.chunk : 0, left, [&](segment::LedgerCell cell) {
          if (cell.slot == q.slot && cell.generation == q.generation) ++holder.pages;
        });
    if (holder.pages > 0) part.clients.push_back(std::move(holder));
    if (next < client.channel.geometry().ledger_chunks) {
      part.next = question::Holders{q.slot, q.generation, id, next};
      break;
    }
  }
  return part;
}

bool Inspector::pinned_by_node(SlotId slot, Generation generation) const {
  return std::ranges::any_of(node_.node_pins_, [&](const NodePin& pin) {
    return pin.slot == slot && pin.generation == generation;
  });
}

// ---- one client ----

InspectAnswer Inspector::operator()(const question::Client& q) {
  const auto found = node_.clients_.find(q.client);
  if (found == node_.clients_.end()) {
    return refuse("no client has the id " + std::to_string(q.client.value) +
                  "; `orlop status` lists them");
  }
  const ClientRecord& client = found->second;
  ClientFacts facts;
  facts.client = client.id;
  facts.name = client.name;
  facts.dead = client.dead;
  facts.held_by_fork = client.dead && client.fork_open;
  facts.lost = client.lost;
  facts.prepared_slots = client.prepared_slots;
  facts.prepared_bytes = client.prepared_bytes;
  facts.open_puts = client.open_puts;
  facts.false_mismatches = client.false_mismatches;
  facts.waiting_puts = static_cast<std::uint64_t>(
      std::count_if(node_.waiting_.begin(), node_.waiting_.end(),
                    [&](const WaitingPut& waiting) { return waiting.put.client == client.id; }));
  describe_puts(facts);
  facts.held = held(client, 0);
  return facts;
}

// A client that has left meanwhile holds nothing.
InspectAnswer Inspector::operator()(const question::Held& q) {
  const auto client = node_.clients_.find(q.client);
  return client == node_.clients_.end() ? Held{} : held(client->second, q.chunk);
}

Held Inspector::held(const ClientRecord& client, std::uint32_t chunk) const {
  Held part;
  if (client.dead) return part;
  std::map<std::uint32_t, Held::Pins> pins;
  std::uint32_t left = kInspectCells;
  const std::uint32_t next =
      segment::for_some_held_cells(client.channel, chunk, left, [&](segment::LedgerCell cell) {
        const Held::Page page = page_of(cell);
        const std::uint64_t bytes =
            node_.known_slot(cell.slot) ? node_.slot_bytes_of(cell.slot) : 0;
        Held::Pins& of_row = pins[page.row ? page.row->value : kNoRow];
        of_row.row = page.row;
        ++of_row.pages;
        of_row.bytes += bytes;
        ++part.pages;
        part.bytes += bytes;
        if (part.some.size() < kInspectRows) part.some.push_back(page);
      });
  for (auto& [row, of_row] : pins) part.by_row.push_back(of_row);
  if (next < client.channel.geometry().ledger_chunks) part.next = question::Held{client.id, next};
  return part;
}

void Inspector::describe_puts(ClientFacts& facts) const {
  for (auto put = node_.puts_.lower_bound(make_put_id(facts.client, 0));
       put != node_.puts_.end() && owner_of(put->first) == facts.client &&
       facts.puts.size() < kInspectRows;
       ++put) {
    const PutRecord& record = put->second;
    facts.puts.push_back({.put = put->first,
                          .row = row_of(record.ns),
                          .age = now_ - std::min(now_, record.started),
                          .open_slots = record.open_slots,
                          .open_groups = static_cast<std::uint32_t>(record.leaders.size())});
  }
}

// What the cell names is a client's writing.
Held::Page Inspector::page_of(segment::LedgerCell cell) const {
  Held::Page page;
  page.slot = cell.slot;
  page.generation = cell.generation;
  if (!node_.known_slot(cell.slot)) return page;
  const SlotRow& row = node_.area_.slot(cell.slot);
  const SlotWord word = row.load_word(std::memory_order_relaxed);
  page.valid = word.generation == cell.generation && word.state != SlotState::kFree;
  if (!page.valid) return page;
  page.row = row_of(row.load_ns());
  page.key = row.load_key();
  page.state = word.state;
  return page;
}

}  // namespace orlop::protocol
