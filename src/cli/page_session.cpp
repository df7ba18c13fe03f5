// SPDX-License-Identifier: Apache-2.0
#include "cli/page_session.h"

#include <algorithm>
#include <string>

#include "base/bytes.h"
#include "base/check.h"
#include "platform/clock.h"

namespace orlop::cli {
namespace {

// Pages are copied in rounds of so many bytes: larger than the caches nearest to a core, so that
// copies are as dear as for an engine's buffers.
constexpr std::size_t kScratchBytes = 8 * kMiB;

}  // namespace

PageSession::PageSession(Client& client, Namespace ns, std::uint32_t writer, Milliseconds put_limit)
    : client_(client),
      ns_(std::move(ns)),
      writer_(writer),
      put_limit_(put_limit),
      value_len_(ns_.value_len()),
      scratch_pages_(std::max<std::size_t>(1, kScratchBytes / value_len_)) {
  CHECK(value_len_ >= kMinPageBytes);
}

std::vector<Key> PageSession::texts_of(std::span<const PageKey> keys) {
  std::vector<Key> texts;
  texts.reserve(keys.size());
  for (const PageKey& key : keys) texts.push_back(key.text());
  return texts;
}

std::span<std::byte> PageSession::scratch(std::size_t page) {
  const std::size_t place = page % scratch_pages_;
  if (scratch_.size() < (place + 1) * value_len_) scratch_.resize((place + 1) * value_len_);
  return std::span(scratch_).subspan(place * value_len_, value_len_);
}

Result<std::uint32_t> PageSession::restore(std::span<const PageKey> keys) {
  tally_.pages += keys.size();
  const std::vector<Key> texts = texts_of(keys);
  const MonoNs begin = monotonic_ns();
  auto handle = client_.get_start(ns_, texts);
  if (!handle) return std::unexpected(handle.error());
  const GetResult result = handle->result();
  ++tally_.miss_reasons[static_cast<std::size_t>(result.reason)];
  if (result.transferable_len == 0) {
    tally_.plan_ns.record(monotonic_ns() - begin);
    return 0u;
  }
  auto plan = client_.get_transfer(*handle);
  if (!plan) return std::unexpected(plan.error());
  MonoNs spent = monotonic_ns() - begin;
  tally_.plan_ns.record(spent);
  const auto restored = copy_and_check(*plan, keys.first(plan->size()), spent);
  const MonoNs before_release = monotonic_ns();
  if (auto released = client_.release_views(*plan); !released) {
    return std::unexpected(released.error());
  }
  tally_.get_ns.record(spent + (monotonic_ns() - before_release));
  if (restored) tally_.hit_pages += *restored;
  return restored;
}

Result<std::uint32_t> PageSession::copy_and_check(ReadPlan& plan, std::span<const PageKey> keys,
                                                  MonoNs& spent) {
  for (std::size_t first = 0; first < keys.size(); first += scratch_pages_) {
    const std::size_t end = std::min(keys.size(), first + scratch_pages_);
    (void)scratch(std::min(end, scratch_pages_) - 1);  // no allocation inside the timed part
    const MonoNs begin = monotonic_ns();
    std::size_t copied = first;
    for (; copied < end; ++copied) {
      const auto right = plan.copy_out(copied, scratch(copied));
      if (!right) return std::unexpected(right.error());
      if (!*right) break;
    }
    spent += monotonic_ns() - begin;
    if (copied < end) ++tally_.checksum_mismatches;
    check_copied(keys, first, copied);
    if (copied < end) return static_cast<std::uint32_t>(copied);
  }
  return static_cast<std::uint32_t>(keys.size());
}

void PageSession::check_copied(std::span<const PageKey> keys, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    const auto writer = check_page(scratch(i), keys[i]);
    tally_.verified_bytes += value_len_;
    if (!writer) {
      ++tally_.wrong_pages;
      continue;
    }
    if (*writer != writer_) ++tally_.cross_worker_pages;
    if (observer_) observer_(keys[i], *writer);
  }
}

Result<void> PageSession::fill_and_copy_in(PutPlan& plan, std::span<const PageKey> keys,
                                           MonoNs& spent) {
  for (std::size_t first = 0; first < keys.size(); first += scratch_pages_) {
    const std::size_t end = std::min(keys.size(), first + scratch_pages_);
    for (std::size_t i = first; i < end; ++i) {
      if (plan.outcome(i) == Outcome::kPrepared) fill_page(scratch(i), keys[i], writer_);
    }
    const MonoNs begin = monotonic_ns();
    for (std::size_t i = first; i < end; ++i) {
      if (plan.outcome(i) != Outcome::kPrepared) continue;
      if (auto copied = plan.copy_in(i, scratch(i)); !copied) return copied;
    }
    spent += monotonic_ns() - begin;
  }
  return {};
}

Result<std::uint32_t> PageSession::store(std::span<const PageKey> keys,
                                         std::optional<PageKey> parent,
                                         std::vector<PageKey>* stored) {
  const std::vector<Key> texts = texts_of(keys);
  PutOptions options;
  if (parent) options.parent = parent->text();
  options.deadline = put_limit_;
  const MonoNs begin = monotonic_ns();
  auto plan = client_.put_start(ns_, texts, options);
  if (!plan) return std::unexpected(plan.error());
  MonoNs spent = monotonic_ns() - begin;
  if (auto copied = fill_and_copy_in(*plan, keys, spent); !copied) {
    return std::unexpected(copied.error());
  }
  const MonoNs before_commit = monotonic_ns();
  auto future = client_.put_commit(*plan);
  if (!future) return std::unexpected(future.error());
  const auto outcomes = future->wait(put_limit_);
  if (!outcomes) {
    return fail(ErrorCode::kDeadline,
                "a commit was not answered within " + std::to_string(put_limit_.count()) + " ms");
  }
  tally_.put_ns.record(spent + (monotonic_ns() - before_commit));
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < outcomes->size(); ++i) {
    ++tally_.outcomes[static_cast<std::size_t>((*outcomes)[i])];
    if ((*outcomes)[i] != Outcome::kStored) continue;
    ++count;
    if (stored != nullptr) stored->push_back(keys[i]);
  }
  tally_.stored_pages += count;
  return count;
}

}  // namespace orlop::cli
