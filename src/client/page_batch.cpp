// SPDX-License-Identifier: Apache-2.0
#include "client/page_batch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "client/access.h"

namespace orlop::client {

using detail::ClientAccess;
using detail::ClientCore;
using detail::PutPlanState;
using detail::ReadState;

namespace {

std::unexpected<Error> in_item(std::size_t i, const Error& error) {
  return fail(error.code, "items[" + std::to_string(i) + "]: " + error.message);
}

std::unexpected<Error> invalid_item(std::size_t i, std::string text) {
  return in_item(i, {ErrorCode::kInvalidArgument, std::move(text)});
}

template <class Plan>
Result<void> usable_by(const ClientCore& core, Plan& plan) {
  if (auto usable = ClientAccess::usable(plan); !usable) return usable;
  const ClientCore* const owner = ClientAccess::state(plan)->core.get();
  if (owner == &core) return {};
  return fail(ErrorCode::kWrongState,
              "plan: belongs to another client; give it to a PageCache of the one that made it");
}

Result<void> check_value_len(std::uint32_t plan, std::uint64_t layout) {
  if (plan == layout) return {};
  return fail(ErrorCode::kInvalidArgument,
              "plan: its values have " + std::to_string(plan) + " bytes, the layout's have " +
                  std::to_string(layout) + "; open a PageCache for this namespace's value_len");
}

void append_pages(PageBatch& batch, const gpu::CompiledLayout& layout,
                  std::span<const std::span<const std::int64_t>> pages, std::size_t value) {
  for (std::size_t pool = 0; pool < pages.size(); ++pool) {
    const std::uint32_t each = layout.pools()[pool].pages_per_value;
    const auto of_value = pages[pool].subspan(value * each, each);
    batch.pages[pool].insert(batch.pages[pool].end(), of_value.begin(), of_value.end());
  }
}

Result<void> append_put(PageBatch& batch, const gpu::CompiledLayout& layout,
                        const std::shared_ptr<PutPlanState>& plan, const BackupItem& item) {
  if (plan->prepared > 0) {
    if (auto checked = check_value_len(plan->value_len, layout.value_len()); !checked)
      return checked;
  }
  if (auto checked = layout.check_pages(plan->outcomes.size(), item.pages); !checked)
    return checked;
  batch.puts.push_back({.plan = plan, .copy = 0, .first = batch.values.size()});
  for (std::size_t i = 0; i < plan->grants.size(); ++i) {
    if (plan->grants[i].slot == 0) continue;
    batch.values.push_back(
        plan->attachment->value(SlotId{plan->grants[i].slot}, plan->value_len).data());
    append_pages(batch, layout, item.pages, i);
  }
  return {};
}

Result<void> append_read(PageBatch& batch, const gpu::CompiledLayout& layout, ReadState& plan,
                         const RestoreItem& item) {
  if (item.rank >= plan.rank_count) {
    return fail(ErrorCode::kInvalidArgument, "rank: is " + std::to_string(item.rank) +
                                                 ", the plan has " +
                                                 std::to_string(plan.rank_count));
  }
  const ReadState::Rank& rank = plan.ranks[item.rank];
  if (plan.pages > 0) {
    if (auto checked = check_value_len(rank.value_len, layout.value_len()); !checked)
      return checked;
  }
  if (auto checked = layout.check_pages(plan.pages, item.pages); !checked) return checked;
  // What lies beyond a mismatch is a miss already.
  const std::uint32_t pages = std::min(plan.pages, plan.valid.load(std::memory_order_relaxed));
  batch.reads.push_back({.plan = pages > 0 ? &plan : nullptr,
                         .rank = item.rank,
                         .copy = 0,
                         .pages = pages,
                         .first = batch.values.size()});
  for (std::uint32_t i = 0; i < pages; ++i) {
    batch.values.push_back(plan.attachment->value(rank.pins[i].slot, rank.value_len).data());
    append_pages(batch, layout, item.pages, i);
  }
  return {};
}

// Which item the i-th value of the batch is of.
std::size_t item_of(const PageBatch& batch, std::size_t value) {
  const auto after = std::ranges::upper_bound(batch.reads, value, {}, &PageBatch::Read::first);
  return static_cast<std::size_t>(after - batch.reads.begin()) - 1;
}

// Two values would race for the page, which then held parts of both, and both would pass as right.
Result<void> check_repeats(const PageBatch& batch, const gpu::CompiledLayout& layout) {
  for (std::size_t pool = 0; pool < batch.pages.size(); ++pool) {
    const std::vector<std::int64_t>& numbers = batch.pages[pool];
    std::vector<std::int64_t> sorted = numbers;
    std::ranges::sort(sorted);
    const auto twice = std::ranges::adjacent_find(sorted);
    if (twice == sorted.end()) continue;
    const auto first = std::ranges::find(numbers, *twice);
    const auto second = std::find(first + 1, numbers.end(), *twice);
    const std::uint32_t each = layout.pools()[pool].pages_per_value;
    const auto value = static_cast<std::size_t>(second - numbers.begin()) / each;
    return invalid_item(item_of(batch, value),
                        "pages of pool " + std::to_string(pool) + ": number " +
                            std::to_string(*twice) + " comes twice in this call, first in items[" +
                            std::to_string(item_of(
                                batch, static_cast<std::size_t>(first - numbers.begin()) / each)) +
                            "]; one page cannot hold two values");
  }
  return {};
}

PageBatch batch_for(const gpu::CompiledLayout& layout) {
  PageBatch batch;
  batch.pages.resize(layout.pools().size());
  return batch;
}

}  // namespace

Result<PageBatch> PageBatch::of(const ClientCore& core, const gpu::CompiledLayout& layout,
                                std::span<const BackupItem> items) {
  PageBatch batch = batch_for(layout);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].plan == nullptr) return invalid_item(i, "plan: is null; give a plan of put_start");
    PutPlan& plan = *items[i].plan;
    if (auto usable = usable_by(core, plan); !usable) return in_item(i, usable.error());
    if (auto idle = ClientAccess::idle(plan); !idle) return in_item(i, idle.error());
    const std::shared_ptr<PutPlanState>& state = ClientAccess::state(plan);
    for (const Put& before : batch.puts)
      if (before.plan == state) return invalid_item(i, "plan: comes twice; give each plan once");
    if (auto appended = append_put(batch, layout, state, items[i]); !appended)
      return in_item(i, appended.error());
  }
  return batch;
}

Result<PageBatch> PageBatch::of(const ClientCore& core, const gpu::CompiledLayout& layout,
                                std::span<const RestoreItem> items) {
  PageBatch batch = batch_for(layout);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].plan == nullptr)
      return invalid_item(i, "plan: is null; give a plan of get_transfer");
    ReadPlan& plan = *items[i].plan;
    if (auto usable = usable_by(core, plan); !usable) return in_item(i, usable.error());
    if (auto appended = append_read(batch, layout, *ClientAccess::state(plan), items[i]); !appended)
      return in_item(i, appended.error());
  }
  if (auto unique = check_repeats(batch, layout); !unique) return std::unexpected(unique.error());
  return batch;
}

Result<void> PageBatch::register_copies(ClientCore& core) {
  for (std::size_t i = 0; i < puts.size(); ++i) {
    if (puts[i].plan->prepared == 0) continue;
    const auto copy = core.register_put_copy(puts[i].plan);
    if (!copy) return in_item(i, copy.error());
    puts[i].copy = *copy;
  }
  for (std::size_t i = 0; i < reads.size(); ++i) {
    if (reads[i].plan == nullptr) continue;
    const auto copy = core.register_read_copy(*reads[i].plan);
    if (!copy) return in_item(i, copy.error());
    reads[i].copy = *copy;
  }
  return {};
}

void PageBatch::take_off_copies(ClientCore& core) {
  for (Put& item : puts)
    if (item.copy != 0)
      static_cast<void>(core.copy_done(std::exchange(item.copy, 0), true, nullptr));
  for (Read& item : reads)
    if (item.copy != 0)
      static_cast<void>(core.copy_done(std::exchange(item.copy, 0), true, nullptr));
}

std::vector<std::shared_ptr<Attachment>> PageBatch::attachments() const {
  std::vector<std::shared_ptr<Attachment>> found;
  const auto add = [&found](const std::shared_ptr<Attachment>& attachment) {
    if (attachment != nullptr && std::ranges::find(found, attachment) == found.end())
      found.push_back(attachment);
  };
  for (const Put& item : puts) add(item.plan->attachment);
  for (const Read& item : reads)
    if (item.plan != nullptr) add(item.plan->attachment);
  return found;
}

}  // namespace orlop::client
