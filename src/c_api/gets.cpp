// SPDX-License-Identifier: Apache-2.0
// Get handles, read plans, existence and removal.
#include <algorithm>
#include <memory>

#include "c_api/arguments.h"
#include "c_api/guard.h"
#include "c_api/handles.h"
#include "c_api/plans.h"
#include "c_api/structs.h"
#include "client/access.h"
#include "client/limits.h"
#include "orlop/orlop.h"

using namespace orlop::c_api;
using orlop::ErrorCode;
using orlop::Result;
using orlop::detail::ClientAccess;

namespace {

Result<void> check_result(const orlop_get_result* result) {
  if (result == nullptr) return {};
  return check_struct_size("result", result->struct_size, sizeof *result);
}

void write_result(const orlop::GetResult& from, orlop_get_result* result) {
  orlop_get_result out{};
  out.raw_prefix_hit_len = from.raw_prefix_hit_len;
  out.transferable_len = from.transferable_len;
  out.prefix_hit_groups = from.prefix_hit_groups;
  out.first_miss_index = from.first_miss_index;
  out.first_miss_group_index = from.first_miss_group_index;
  out.all_hit = from.all_hit ? 1 : 0;
  out.reason = static_cast<uint32_t>(from.reason);
  write_struct(result, out);
}

// What both forms of get_start do with their answer. made: reserved before anything was pinned.
Result<void> give(Result<orlop::GetHandle>& handle, std::unique_ptr<orlop_get_handle> made,
                  orlop_get_handle** out, orlop_get_result* result) {
  if (!handle) return std::unexpected(handle.error());
  if (result != nullptr) write_result(handle->result(), result);
  made->object.emplace(std::move(*handle));
  *out = made.release();
  return {};
}

Result<std::vector<orlop::Namespace>> read_ranks(const orlop_namespace* const* ranks,
                                                 std::size_t count) {
  if (ranks == nullptr && count != 0)
    return orlop::fail(ErrorCode::kInvalidArgument,
                       "ranks: is NULL and rank_count is " + std::to_string(count));
  if (count > orlop::client::kMaxCohort) {  // the client's words, before there are so many copies
    return orlop::fail(ErrorCode::kInvalidArgument, "ranks: has " + std::to_string(count) +
                                                        " entries, allowed are 1 to " +
                                                        std::to_string(orlop::client::kMaxCohort));
  }
  std::vector<orlop::Namespace> read;
  for (std::size_t i = 0; i < count; ++i) {
    if (auto checked = check_handle("ranks[" + std::to_string(i) + "]", ranks[i]); !checked)
      return std::unexpected(checked.error());
    read.push_back(*ranks[i]->object);
  }
  return read;
}

Result<void> check_page(const orlop::ReadPlan& plan, std::size_t i, std::size_t rank) {
  if (auto checked = ClientAccess::usable(plan); !checked) return checked;
  if (i >= plan.size()) {
    return orlop::fail(
        ErrorCode::kInvalidArgument,
        "i: is " + std::to_string(i) + ", the plan has " + std::to_string(plan.size()) + " keys");
  }
  if (rank < plan.ranks()) return {};
  return orlop::fail(
      ErrorCode::kInvalidArgument,
      "rank: is " + std::to_string(rank) + ", the plan has " + std::to_string(plan.ranks()));
}

std::unexpected<orlop::Error> mismatch(const orlop::ReadPlan& plan, std::size_t i) {
  const std::string bad = std::to_string(plan.valid_len());
  return orlop::fail(ErrorCode::kCorrupt, "i: page " + std::to_string(i) +
                                              " must not be used: the bytes of page " + bad +
                                              " do not match their checksum, so it and all after "
                                              "it are misses");
}

// Why there is no view: close() in another thread has the same answer as a mismatch.
std::unexpected<orlop::Error> no_view(const orlop::ReadPlan& plan, std::size_t i,
                                      std::size_t rank) {
  const std::size_t valid = plan.valid_len();
  if (auto checked = check_page(plan, i, rank); !checked) return std::unexpected(checked.error());
  if (i < valid) return orlop::fail(ErrorCode::kClosed, "plan: its client was closed");
  return mismatch(plan, i);
}

}  // namespace

orlop_status orlop_get_start(orlop_client* client, const orlop_namespace* ns,
                             const orlop_keys* keys, const orlop_get_options* options,
                             orlop_get_handle** out, orlop_get_result* result) {
  if (out != nullptr) *out = nullptr;
  return guarded([&]() -> Result<void> {
    if (auto checked = check_both(client, "ns", ns); !checked) return checked;
    if (auto checked = check_out("out", out); !checked) return checked;
    if (auto checked = check_result(result); !checked) return checked;
    KeyViews views;
    if (auto read = views.read(keys); !read) return read;
    const auto read = read_options(options);
    if (!read) return std::unexpected(read.error());
    auto made = std::make_unique<orlop_get_handle>();
    auto handle = client->object->get_start(*ns->object, views.get(), *read);
    return give(handle, std::move(made), out, result);
  });
}

orlop_status orlop_get_start_cohort(orlop_client* client, const orlop_namespace* const* ranks,
                                    size_t rank_count, const orlop_keys* keys,
                                    const orlop_get_options* options, orlop_get_handle** out,
                                    orlop_get_result* result) {
  if (out != nullptr) *out = nullptr;
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("client", client); !checked) return checked;
    if (auto checked = check_out("out", out); !checked) return checked;
    if (auto checked = check_result(result); !checked) return checked;
    const auto namespaces = read_ranks(ranks, rank_count);
    if (!namespaces) return std::unexpected(namespaces.error());
    KeyViews views;
    if (auto read = views.read(keys); !read) return read;
    const auto read = read_options(options);
    if (!read) return std::unexpected(read.error());
    auto made = std::make_unique<orlop_get_handle>();
    auto handle = client->object->get_start_cohort(*namespaces, views.get(), *read);
    return give(handle, std::move(made), out, result);
  });
}

orlop_status orlop_handle_result(const orlop_get_handle* handle, orlop_get_result* result) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("handle", handle); !checked) return checked;
    if (auto checked = check_out("result", result); !checked) return checked;
    if (auto checked = check_result(result); !checked) return checked;
    write_result(handle->object->result(), result);
    return {};
  });
}

orlop_status orlop_get_transfer(orlop_client* client, orlop_get_handle* handle,
                                uint32_t consume_prefix_len, orlop_read_plan** out) {
  if (out != nullptr) *out = nullptr;
  return guarded([&]() -> Result<void> {
    if (auto checked = check_both(client, "handle", handle); !checked) return checked;
    if (auto checked = check_out("out", out); !checked) return checked;
    std::optional<std::uint32_t> pages;
    if (consume_prefix_len != ORLOP_WHOLE_PREFIX) pages = consume_prefix_len;
    auto made = std::make_unique<orlop_read_plan>();
    auto plan = client->object->get_transfer(*handle->object, pages);
    if (!plan) return std::unexpected(plan.error());
    made->object.emplace(std::move(*plan));
    *out = made.release();
    return {};
  });
}

orlop_status orlop_cancel_get(orlop_client* client, orlop_get_handle* handle) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_both(client, "handle", handle); !checked) return checked;
    return client->object->cancel_get(*handle->object);
  });
}

void orlop_get_handle_free(orlop_get_handle* handle) {
  free_handle(handle);
}

size_t orlop_read_plan_size(const orlop_read_plan* plan) {
  return guarded_value(size_t{0}, [&] { return usable(plan) ? plan->object->size() : 0; });
}

size_t orlop_read_plan_ranks(const orlop_read_plan* plan) {
  return guarded_value(size_t{0}, [&] { return usable(plan) ? plan->object->ranks() : 0; });
}

size_t orlop_valid_len(const orlop_read_plan* plan) {
  return guarded_value(size_t{0}, [&] { return usable(plan) ? plan->object->valid_len() : 0; });
}

orlop_status orlop_view(orlop_read_plan* plan, size_t i, size_t rank, orlop_bytes* bytes) {
  if (bytes != nullptr) *bytes = {nullptr, 0};
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("plan", plan); !checked) return checked;
    if (auto checked = check_out("bytes", bytes); !checked) return checked;
    if (auto checked = check_page(*plan->object, i, rank); !checked) return checked;
    const std::span<const std::byte> view = plan->object->view(i, rank);
    if (view.empty()) return no_view(*plan->object, i, rank);
    *bytes = {view.data(), view.size()};
    return {};
  });
}

orlop_bytes orlop_view_unverified(const orlop_read_plan* plan, size_t i, size_t rank) {
  return guarded_value(orlop_bytes{nullptr, 0}, [&] {
    if (!usable(plan)) return orlop_bytes{nullptr, 0};
    const std::span<const std::byte> view = plan->object->view_unverified(i, rank);
    return orlop_bytes{view.data(), view.size()};
  });
}

orlop_status orlop_copy_out(orlop_read_plan* plan, size_t i, size_t rank, void* destination,
                            size_t size) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("plan", plan); !checked) return checked;
    if (auto checked = check_bytes("destination", destination, size); !checked) return checked;
    const auto matched =
        plan->object->copy_out(i, {static_cast<std::byte*>(destination), size}, rank);
    if (!matched) return std::unexpected(matched.error());
    if (!*matched) return mismatch(*plan->object, i);
    return {};
  });
}

uint64_t orlop_expected_checksum(const orlop_read_plan* plan, size_t i, size_t rank) {
  return guarded_value(uint64_t{0},
                       [&] { return usable(plan) ? plan->object->expected_checksum(i, rank) : 0; });
}

orlop_status orlop_report_mismatch(orlop_read_plan* plan, size_t i, size_t rank) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("plan", plan); !checked) return checked;
    return plan->object->report_mismatch(i, rank);
  });
}

orlop_status orlop_read_register_copy(orlop_read_plan* plan, uint64_t* copy) {
  return register_copy(plan, copy);
}

orlop_status orlop_read_copy_done(orlop_read_plan* plan, uint64_t copy, int success) {
  return copy_done(plan, copy, success);
}

orlop_status orlop_read_blob(orlop_read_plan* plan, const uint64_t** words, size_t* count) {
  return give_blob(plan, words, count);
}

orlop_status orlop_release_views(orlop_client* client, orlop_read_plan* plan) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_both(client, "plan", plan); !checked) return checked;
    return client->object->release_views(*plan->object);
  });
}

void orlop_read_plan_free(orlop_read_plan* plan) {
  free_handle(plan);
}

orlop_status orlop_get(orlop_client* client, const orlop_namespace* ns, const orlop_keys* keys,
                       const orlop_buffer* buffers, size_t buffer_count,
                       const orlop_get_options* options, uint32_t* copied) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_both(client, "ns", ns); !checked) return checked;
    if (auto checked = check_out("copied", copied); !checked) return checked;
    KeyViews views;
    if (auto read = views.read(keys); !read) return read;
    const auto spans = read_buffers(buffers, buffer_count);
    if (!spans) return std::unexpected(spans.error());
    const auto read = read_options(options);
    if (!read) return std::unexpected(read.error());
    const auto pages = client->object->get(*ns->object, views.get(), *spans, *read);
    if (!pages) return std::unexpected(pages.error());
    *copied = *pages;
    return {};
  });
}

orlop_status orlop_exists(orlop_client* client, const orlop_namespace* ns, const orlop_keys* keys,
                          uint32_t* prefix_len, uint8_t* bitmap, size_t bitmap_size) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_both(client, "ns", ns); !checked) return checked;
    if (auto checked = check_out("prefix_len", prefix_len); !checked) return checked;
    KeyViews views;
    if (auto read = views.read(keys); !read) return read;
    const std::size_t needed = (views.get().size() + 7) / 8;
    if (bitmap != nullptr && bitmap_size < needed) {
      return orlop::fail(ErrorCode::kInvalidArgument, "bitmap: has " + std::to_string(bitmap_size) +
                                                          " bytes, " +
                                                          std::to_string(views.get().size()) +
                                                          " keys need " + std::to_string(needed));
    }
    const auto answered = client->object->exists(*ns->object, views.get());
    if (!answered) return std::unexpected(answered.error());
    *prefix_len = answered->prefix_len;
    if (bitmap == nullptr) return {};
    std::fill_n(bitmap, bitmap_size, uint8_t{0});
    for (std::size_t i = 0; i < answered->present.size(); ++i)
      if (answered->present[i]) bitmap[i / 8] |= static_cast<uint8_t>(1U << (i % 8));
    return {};
  });
}

orlop_status orlop_remove(orlop_client* client, const orlop_namespace* ns, const orlop_keys* keys,
                          uint64_t* slots) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_both(client, "ns", ns); !checked) return checked;
    KeyViews views;
    if (auto read = views.read(keys); !read) return read;
    return give_number(client->object->remove(*ns->object, views.get()), slots);
  });
}

orlop_status orlop_flush(orlop_client* client, const orlop_namespace* ns, uint64_t* namespaces) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_both(client, "ns", ns); !checked) return checked;
    return give_number(client->object->flush(*ns->object), namespaces);
  });
}

orlop_status orlop_flush_family(orlop_client* client, const orlop_namespace* ns,
                                uint64_t* namespaces) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_both(client, "ns", ns); !checked) return checked;
    return give_number(client->object->flush_family(*ns->object), namespaces);
  });
}
