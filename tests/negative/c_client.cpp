// SPDX-License-Identifier: Apache-2.0
#include "c_client.h"

#include <algorithm>

namespace orlop::negative_test {

namespace {

orlop_text text(std::string_view words) {
  return {words.data(), words.size()};
}

orlop_put_options in_c(const PutOptions& options, std::vector<std::uint8_t>& mask) {
  orlop_put_options c{};
  c.struct_size = sizeof c;
  c.atomic_group_lens = options.atomic_group_lens.data();
  c.atomic_group_count = options.atomic_group_lens.size();
  if (options.parent) c.parent = {options.parent->data(), options.parent->size()};
  mask.assign(options.replicate_mask.begin(), options.replicate_mask.end());
  c.replicate_mask = mask.data();
  c.replicate_mask_count = mask.size();
  if (options.replicate) c.flags |= ORLOP_PUT_REPLICATE;
  if (options.write_through) c.flags |= ORLOP_PUT_WRITE_THROUGH;
  if (options.deadline) {
    c.flags |= ORLOP_PUT_DEADLINE;
    c.deadline_ms = options.deadline->count();
  }
  return c;
}

orlop_get_options in_c(const GetOptions& options) {
  return {sizeof(orlop_get_options), options.atomic_group_lens.data(),
          options.atomic_group_lens.size()};
}

std::vector<Outcome> in_cpp(const std::vector<orlop_outcome>& outcomes) {
  std::vector<Outcome> cpp;
  for (const orlop_outcome outcome : outcomes) cpp.push_back(static_cast<Outcome>(outcome));
  return cpp;
}

template <class Value>
Result<Value> value_or_error(orlop_status status, Value&& value) {
  if (auto answer = c_answer(status); !answer) return std::unexpected(answer.error());
  return std::forward<Value>(value);
}

std::span<const std::uint64_t> blob_words(const std::uint64_t* words, std::size_t count) {
  return {words, count};
}

}  // namespace

Result<void> c_answer(orlop_status status) {
  if (status == ORLOP_OK) return {};
  return fail(static_cast<ErrorCode>(status), orlop_error_message());
}

CKeys::CKeys(std::span<const Key> keys) {
  const bool packable = !keys.empty() && !keys[0].empty() &&
                        std::all_of(keys.begin(), keys.end(),
                                    [&](const Key& key) { return key.size() == keys[0].size(); });
  keys_.count = keys.size();
  if (packable) {
    for (const Key& key : keys) packed_ += key;
    keys_.packed = packed_.data();
    keys_.key_len = keys[0].size();
    return;
  }
  for (const Key& key : keys) items_.push_back({key.data(), key.size()});
  keys_.items = items_.data();
}

std::optional<std::vector<Outcome>> Future::wait(Milliseconds timeout) const {
  std::vector<orlop_outcome> outcomes(orlop_future_size(handle_.get()));
  if (orlop_future_wait(handle_.get(), timeout.count(), outcomes.data(), outcomes.size()) !=
      ORLOP_OK)
    return std::nullopt;
  return in_cpp(outcomes);
}

// ---- plans

std::string_view PutPlan::explanation() const {
  const orlop_text words = orlop_put_plan_explanation(handle_.get());
  return {words.data, words.size};
}
std::span<std::byte> PutPlan::memory(std::size_t i) const {
  const orlop_buffer memory = orlop_put_memory(handle_.get(), i);
  return {static_cast<std::byte*>(memory.data), memory.size};
}
Result<void> PutPlan::copy_in(std::size_t i, std::span<const std::byte> source) {
  return c_answer(orlop_copy_in(handle_.get(), i, source.data(), source.size()));
}
Result<void> PutPlan::set_checksum(std::size_t i, std::uint64_t checksum) {
  return c_answer(orlop_set_checksum(handle_.get(), i, checksum));
}
Result<std::uint64_t> PutPlan::register_copy() {
  std::uint64_t copy = 0;
  const orlop_status status = orlop_put_register_copy(handle_.get(), &copy);
  return value_or_error(status, std::move(copy));
}
Result<void> PutPlan::copy_done(std::uint64_t copy, bool success) {
  return c_answer(orlop_put_copy_done(handle_.get(), copy, success ? 1 : 0));
}
Result<std::span<const std::uint64_t>> PutPlan::blob() {
  const std::uint64_t* words = nullptr;
  std::size_t count = 0;
  const orlop_status status = orlop_put_blob(handle_.get(), &words, &count);
  return value_or_error(status, blob_words(words, count));
}

GetResult GetHandle::result() const {
  orlop_get_result c{};
  c.struct_size = sizeof c;
  GetResult result;
  if (orlop_handle_result(handle_.get(), &c) != ORLOP_OK) return result;
  result.raw_prefix_hit_len = c.raw_prefix_hit_len;
  result.transferable_len = c.transferable_len;
  result.prefix_hit_groups = c.prefix_hit_groups;
  result.first_miss_index = c.first_miss_index;
  result.first_miss_group_index = c.first_miss_group_index;
  result.all_hit = c.all_hit == 1;
  result.reason = static_cast<MissReason>(c.reason);
  return result;
}

std::span<const std::byte> ReadPlan::view(std::size_t i, std::size_t rank) {
  orlop_bytes bytes{};
  if (orlop_view(handle_.get(), i, rank, &bytes) != ORLOP_OK) return {};
  return {static_cast<const std::byte*>(bytes.data), bytes.size};
}
std::span<const std::byte> ReadPlan::view_unverified(std::size_t i, std::size_t rank) const {
  const orlop_bytes bytes = orlop_view_unverified(handle_.get(), i, rank);
  return {static_cast<const std::byte*>(bytes.data), bytes.size};
}
Result<bool> ReadPlan::copy_out(std::size_t i, std::span<std::byte> destination, std::size_t rank) {
  const orlop_status status =
      orlop_copy_out(handle_.get(), i, rank, destination.data(), destination.size());
  if (status == ORLOP_CORRUPT) return false;
  return value_or_error(status, true);
}
Result<void> ReadPlan::report_mismatch(std::size_t i, std::size_t rank) {
  return c_answer(orlop_report_mismatch(handle_.get(), i, rank));
}
Result<std::uint64_t> ReadPlan::register_copy() {
  std::uint64_t copy = 0;
  const orlop_status status = orlop_read_register_copy(handle_.get(), &copy);
  return value_or_error(status, std::move(copy));
}
Result<void> ReadPlan::copy_done(std::uint64_t copy, bool success) {
  return c_answer(orlop_read_copy_done(handle_.get(), copy, success ? 1 : 0));
}
Result<std::span<const std::uint64_t>> ReadPlan::blob() {
  const std::uint64_t* words = nullptr;
  std::size_t count = 0;
  const orlop_status status = orlop_read_blob(handle_.get(), &words, &count);
  return value_or_error(status, blob_words(words, count));
}

// ---- client

Client::Client(const ClientOptions& options) {
  orlop_client_options c{};
  c.struct_size = sizeof c;
  c.socket = text(options.socket);
  c.name = text(options.name);
  c.call_budget_ms = options.call_budget.count();
  c.handle_ttl_ms = options.handle_ttl.count();
  c.ledger_cells = options.ledger_cells;
  orlop_client* opened = nullptr;
  if (auto answer = c_answer(orlop_open(&c, &opened)); !answer) open_error_ = answer.error();
  handle_.reset(opened);
}

Error Client::last_attach_error() const {
  if (handle_ == nullptr) return open_error_;
  const auto answer = c_answer(orlop_last_attach_error(handle_.get()));
  return answer ? Error{ErrorCode::kWrongState, "is ready"} : answer.error();
}

Result<Namespace> Client::open_namespace(const NamespaceDescriptor& d) {
  const orlop_namespace_descriptor c = {
      sizeof c,      text(d.engine),    text(d.layout), text(d.model), text(d.revision),
      text(d.dtype), text(d.component), text(d.codec),  d.page_tokens, d.value_len,
      d.tp_rank,     d.tp_size,         d.pp_rank,      d.pp_size,     d.cp_rank,
      d.cp_size,     d.first_layer,     d.layers,       d.first_head,  d.heads};
  orlop_namespace* opened = nullptr;
  const orlop_status status = orlop_open_namespace(handle_.get(), &c, &opened);
  Namespace ns;
  ns.handle_.reset(opened, orlop_namespace_free);
  return value_or_error(status, std::move(ns));
}

Result<Namespace> Client::open_namespace_json(std::string_view json) {
  orlop_namespace* opened = nullptr;
  const orlop_status status = orlop_open_namespace_json(handle_.get(), text(json), &opened);
  Namespace ns;
  ns.handle_.reset(opened, orlop_namespace_free);
  return value_or_error(status, std::move(ns));
}

Result<PutPlan> Client::put_start(const Namespace& ns, std::span<const Key> keys,
                                  const PutOptions& options) {
  std::vector<std::uint8_t> mask;
  const orlop_put_options c = in_c(options, mask);
  orlop_put_plan* made = nullptr;
  const orlop_status status =
      orlop_put_start(handle_.get(), ns.handle_.get(), CKeys(keys).get(), &c, &made);
  PutPlan plan;
  plan.handle_.reset(made);
  return value_or_error(status, std::move(plan));
}

Result<Future> Client::put_commit(PutPlan& plan) {
  orlop_future* made = nullptr;
  const orlop_status status = orlop_put_commit(handle_.get(), plan.handle_.get(), &made);
  Future future;
  future.handle_.reset(made, orlop_future_free);
  return value_or_error(status, std::move(future));
}

Result<void> Client::put_abort(PutPlan& plan) {
  return c_answer(orlop_put_abort(handle_.get(), plan.handle_.get()));
}

Result<std::vector<Outcome>> Client::put(const Namespace& ns, std::span<const Key> keys,
                                         std::span<const std::span<const std::byte>> buffers,
                                         const PutOptions& options) {
  std::vector<std::uint8_t> mask;
  const orlop_put_options c = in_c(options, mask);
  std::vector<orlop_bytes> sources;
  for (const auto& buffer : buffers) sources.push_back({buffer.data(), buffer.size()});
  std::vector<orlop_outcome> outcomes(std::max<std::size_t>(keys.size(), 1));
  const orlop_status status =
      orlop_put(handle_.get(), ns.handle_.get(), CKeys(keys).get(), sources.data(), sources.size(),
                &c, outcomes.data(), keys.size());
  outcomes.resize(keys.size());
  return value_or_error(status, in_cpp(outcomes));
}

Result<GetHandle> Client::get_start(const Namespace& ns, std::span<const Key> keys,
                                    const GetOptions& options) {
  const orlop_get_options c = in_c(options);
  orlop_get_handle* made = nullptr;
  const orlop_status status =
      orlop_get_start(handle_.get(), ns.handle_.get(), CKeys(keys).get(), &c, &made, nullptr);
  GetHandle handle;
  handle.handle_.reset(made);
  return value_or_error(status, std::move(handle));
}

Result<GetHandle> Client::get_start_cohort(std::span<const Namespace> ranks,
                                           std::span<const Key> keys, const GetOptions& options) {
  const orlop_get_options c = in_c(options);
  std::vector<const orlop_namespace*> handles;
  for (const Namespace& rank : ranks) handles.push_back(rank.handle_.get());
  orlop_get_handle* made = nullptr;
  const orlop_status status = orlop_get_start_cohort(handle_.get(), handles.data(), handles.size(),
                                                     CKeys(keys).get(), &c, &made, nullptr);
  GetHandle handle;
  handle.handle_.reset(made);
  return value_or_error(status, std::move(handle));
}

Result<ReadPlan> Client::get_transfer(GetHandle& handle,
                                      std::optional<std::uint32_t> consume_prefix_len) {
  orlop_read_plan* made = nullptr;
  const orlop_status status = orlop_get_transfer(
      handle_.get(), handle.handle_.get(), consume_prefix_len.value_or(ORLOP_WHOLE_PREFIX), &made);
  ReadPlan plan;
  plan.handle_.reset(made);
  return value_or_error(status, std::move(plan));
}

Result<void> Client::cancel_get(GetHandle& handle) {
  return c_answer(orlop_cancel_get(handle_.get(), handle.handle_.get()));
}
Result<void> Client::release_views(ReadPlan& plan) {
  return c_answer(orlop_release_views(handle_.get(), plan.handle_.get()));
}
Result<void> Client::copy_done(std::uint64_t copy, bool success) {
  return c_answer(orlop_copy_done(handle_.get(), copy, success ? 1 : 0));
}

Result<std::uint32_t> Client::get(const Namespace& ns, std::span<const Key> keys,
                                  std::span<const std::span<std::byte>> buffers,
                                  const GetOptions& options) {
  const orlop_get_options c = in_c(options);
  std::vector<orlop_buffer> targets;
  for (const auto& buffer : buffers) targets.push_back({buffer.data(), buffer.size()});
  std::uint32_t copied = 0;
  const orlop_status status = orlop_get(handle_.get(), ns.handle_.get(), CKeys(keys).get(),
                                        targets.data(), targets.size(), &c, &copied);
  return value_or_error(status, std::move(copied));
}

Result<ExistsResult> Client::exists(const Namespace& ns, std::span<const Key> keys) {
  ExistsResult result;
  std::vector<std::uint8_t> bitmap(keys.size() / 8 + 1);
  const orlop_status status = orlop_exists(handle_.get(), ns.handle_.get(), CKeys(keys).get(),
                                           &result.prefix_len, bitmap.data(), bitmap.size());
  for (std::size_t i = 0; i < keys.size(); ++i)
    result.present.push_back((bitmap[i / 8] >> (i % 8) & 1) != 0);
  return value_or_error(status, std::move(result));
}

Result<std::uint64_t> Client::remove(const Namespace& ns, std::span<const Key> keys) {
  std::uint64_t slots = 0;
  const orlop_status status =
      orlop_remove(handle_.get(), ns.handle_.get(), CKeys(keys).get(), &slots);
  return value_or_error(status, std::move(slots));
}
Result<std::uint64_t> Client::flush(const Namespace& ns) {
  std::uint64_t slots = 0;
  const orlop_status status = orlop_flush(handle_.get(), ns.handle_.get(), &slots);
  return value_or_error(status, std::move(slots));
}
Result<std::uint64_t> Client::flush_family(const Namespace& ns) {
  std::uint64_t slots = 0;
  const orlop_status status = orlop_flush_family(handle_.get(), ns.handle_.get(), &slots);
  return value_or_error(status, std::move(slots));
}

ClientStats Client::stats() const {
  orlop_client_stats c{};
  c.struct_size = sizeof c;
  ClientStats stats;
  if (orlop_stats(handle_.get(), &c) != ORLOP_OK) return stats;
  std::copy_n(c.misses, kMissReasonCount, stats.misses);
  std::copy_n(c.outcomes, kOutcomeCount, stats.outcomes);
  stats.gets = c.gets;
  stats.keys_asked = c.keys_asked;
  stats.keys_hit = c.keys_hit;
  stats.bytes_read = c.bytes_read;
  stats.puts = c.puts;
  stats.keys_put = c.keys_put;
  stats.keys_stored = c.keys_stored;
  stats.bytes_written = c.bytes_written;
  stats.mismatches = c.mismatches;
  stats.attaches = c.attaches;
  stats.resumes = c.resumes;
  stats.aborted_late = c.aborted_late;
  stats.open_read_plans = c.open_read_plans;
  stats.open_put_plans = c.open_put_plans;
  stats.open_handles = c.open_handles;
  stats.pinned_bytes = c.pinned_bytes;
  stats.pin_cap_bytes = c.pin_cap_bytes;
  return stats;
}

}  // namespace orlop::negative_test
