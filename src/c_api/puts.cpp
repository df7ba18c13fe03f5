// SPDX-License-Identifier: Apache-2.0
// Put plans and the futures of their commits.
#include <memory>

#include "c_api/arguments.h"
#include "c_api/guard.h"
#include "c_api/handles.h"
#include "c_api/plans.h"
#include "client/access.h"
#include "orlop/orlop.h"

using namespace orlop::c_api;
using orlop::ErrorCode;
using orlop::Result;
using orlop::detail::ClientAccess;

namespace {

Result<void> check_outcomes(const orlop_outcome* outcomes, std::size_t count, std::size_t keys) {
  if (auto checked = check_out("outcomes", outcomes); !checked) return checked;
  if (count == keys) return {};
  return orlop::fail(ErrorCode::kInvalidArgument, "outcomes: has " + std::to_string(count) +
                                                      " entries, the put has " +
                                                      std::to_string(keys) + " keys");
}

void write_outcomes(const std::vector<orlop::Outcome>& from, orlop_outcome* outcomes) {
  for (std::size_t i = 0; i < from.size(); ++i) outcomes[i] = static_cast<orlop_outcome>(from[i]);
}

}  // namespace

orlop_status orlop_put_start(orlop_client* client, const orlop_namespace* ns,
                             const orlop_keys* keys, const orlop_put_options* options,
                             orlop_put_plan** out) {
  if (out != nullptr) *out = nullptr;
  return guarded([&]() -> Result<void> {
    if (auto checked = check_both(client, "ns", ns); !checked) return checked;
    if (auto checked = check_out("out", out); !checked) return checked;
    KeyViews views;
    if (auto read = views.read(keys); !read) return read;
    const auto read = read_options(options);
    if (!read) return std::unexpected(read.error());
    auto made = std::make_unique<orlop_put_plan>();
    auto plan = client->object->put_start(*ns->object, views.get(), *read);
    if (!plan) return std::unexpected(plan.error());
    made->object.emplace(std::move(*plan));
    *out = made.release();
    return {};
  });
}

size_t orlop_put_plan_size(const orlop_put_plan* plan) {
  return guarded_value(size_t{0}, [&] { return usable(plan) ? plan->object->size() : 0; });
}

size_t orlop_put_plan_prepared(const orlop_put_plan* plan) {
  return guarded_value(size_t{0}, [&] { return usable(plan) ? plan->object->prepared() : 0; });
}

orlop_outcome orlop_put_plan_outcome(const orlop_put_plan* plan, size_t i) {
  return guarded_value(ORLOP_OUTCOME_ABORTED, [&] {
    return usable(plan) ? static_cast<orlop_outcome>(plan->object->outcome(i))
                        : ORLOP_OUTCOME_ABORTED;
  });
}

orlop_text orlop_put_plan_explanation(const orlop_put_plan* plan) {
  return guarded_value(orlop_text{nullptr, 0}, [&] {
    if (!usable(plan)) return orlop_text{nullptr, 0};
    const std::string_view words = plan->object->explanation();
    return orlop_text{words.data(), words.size()};
  });
}

orlop_buffer orlop_put_memory(const orlop_put_plan* plan, size_t i) {
  return guarded_value(orlop_buffer{nullptr, 0}, [&] {
    if (!usable(plan)) return orlop_buffer{nullptr, 0};
    const std::span<std::byte> memory = plan->object->memory(i);
    return orlop_buffer{memory.data(), memory.size()};
  });
}

orlop_status orlop_copy_in(orlop_put_plan* plan, size_t i, const void* source, size_t size) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("plan", plan); !checked) return checked;
    if (auto checked = check_bytes("source", source, size); !checked) return checked;
    return plan->object->copy_in(i, {static_cast<const std::byte*>(source), size});
  });
}

orlop_status orlop_set_checksum(orlop_put_plan* plan, size_t i, uint64_t checksum) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("plan", plan); !checked) return checked;
    return plan->object->set_checksum(i, checksum);
  });
}

orlop_status orlop_put_register_copy(orlop_put_plan* plan, uint64_t* copy) {
  return register_copy(plan, copy);
}

orlop_status orlop_put_copy_done(orlop_put_plan* plan, uint64_t copy, int success) {
  return copy_done(plan, copy, success);
}

orlop_status orlop_put_blob(orlop_put_plan* plan, const uint64_t** words, size_t* count) {
  return give_blob(plan, words, count);
}

orlop_status orlop_put_commit(orlop_client* client, orlop_put_plan* plan, orlop_future** out) {
  if (out != nullptr) *out = nullptr;
  return guarded([&]() -> Result<void> {
    if (auto checked = check_both(client, "plan", plan); !checked) return checked;
    auto made = std::make_unique<orlop_future>();  // before the commit, which cannot be taken back
    made->size = plan->object->size();
    auto future = client->object->put_commit(*plan->object);
    if (!future) return std::unexpected(future.error());
    made->object.emplace(std::move(*future));
    if (out != nullptr) *out = made.release();
    return {};
  });
}

orlop_status orlop_put_abort(orlop_client* client, orlop_put_plan* plan) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_both(client, "plan", plan); !checked) return checked;
    return client->object->put_abort(*plan->object);
  });
}

void orlop_put_plan_free(orlop_put_plan* plan) {
  free_handle(plan);
}

int orlop_future_ready(const orlop_future* future) {
  return guarded_value(0, [&] { return usable(future) && future->object->ready() ? 1 : 0; });
}

size_t orlop_future_size(const orlop_future* future) {
  return usable(future) ? future->size : 0;
}

orlop_status orlop_future_wait(const orlop_future* future, int64_t timeout_ms,
                               orlop_outcome* outcomes, size_t count) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_handle("future", future); !checked) return checked;
    if (auto checked = ClientAccess::usable(*future->object); !checked) return checked;
    if (auto checked = check_outcomes(outcomes, count, future->size); !checked) return checked;
    const auto answered = future->object->wait(orlop::Milliseconds{timeout_ms});
    if (!answered) {
      return orlop::fail(ErrorCode::kDeadline, "future: no answer within " +
                                                   std::to_string(timeout_ms) +
                                                   " ms; the commit goes on, wait again");
    }
    write_outcomes(*answered, outcomes);
    return {};
  });
}

void orlop_future_free(orlop_future* future) {
  free_handle(future);
}

orlop_status orlop_put(orlop_client* client, const orlop_namespace* ns, const orlop_keys* keys,
                       const orlop_bytes* buffers, size_t buffer_count,
                       const orlop_put_options* options, orlop_outcome* outcomes,
                       size_t outcome_count) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_both(client, "ns", ns); !checked) return checked;
    KeyViews views;
    if (auto read = views.read(keys); !read) return read;
    const auto spans = read_buffers(buffers, buffer_count);
    if (!spans) return std::unexpected(spans.error());
    const auto read = read_options(options);
    if (!read) return std::unexpected(read.error());
    if (auto checked = check_outcomes(outcomes, outcome_count, views.get().size()); !checked)
      return checked;
    const auto answered = client->object->put(*ns->object, views.get(), *spans, *read);
    if (!answered) return std::unexpected(answered.error());
    write_outcomes(*answered, outcomes);
    return {};
  });
}
