// SPDX-License-Identifier: Apache-2.0
// Handles from C: NULL, of another kind, after their end, in any order of freeing.
#include <gtest/gtest.h>

#include <array>
#include <climits>
#include <functional>

#include "c_client.h"
#include "child_process.h"
#include "rows.h"

namespace orlop::negative_test {
namespace {

// Every call with NULL handles and NULL results: refused, by name.
Result<void> null_everywhere(World& world) {
  orlop_client* const c = world.worker().client.c();
  const orlop_namespace* const ns = Client::c(world.worker().ns);
  const orlop_bytes item{"null", 4};
  const orlop_keys keys{1, &item, nullptr, 0};
  orlop_bytes bytes{};
  orlop_outcome outcome{};
  std::uint32_t number = 0;
  orlop_namespace* opened = nullptr;
  orlop_put_plan* plan = nullptr;
  orlop_get_handle* handle = nullptr;
  auto options = sized<orlop_client_options>();
  const auto note = [](const char* names, orlop_status status) {
    EXPECT_EQ(status, ORLOP_INVALID_ARGUMENT) << names;
    const std::string text = orlop_error_message();
    EXPECT_EQ(text.rfind(std::string(names) + ": is NULL", 0), 0U) << text;
  };
  note("out", orlop_open(&options, nullptr));
  note("client", orlop_close(nullptr));
  note("client", orlop_wait_ready(nullptr, 0));
  note("client", orlop_last_attach_error(nullptr));
  note("client", orlop_ping(nullptr));
  note("client", orlop_stats(nullptr, nullptr));
  note("stats", orlop_stats(c, nullptr));
  note("client", orlop_open_namespace(nullptr, nullptr, &opened));
  note("out", orlop_open_namespace(c, nullptr, nullptr));
  note("client", orlop_open_namespace_json(nullptr, {nullptr, 0}, &opened));
  note("client", orlop_put_start(nullptr, ns, &keys, nullptr, &plan));
  note("ns", orlop_put_start(c, nullptr, &keys, nullptr, &plan));
  note("out", orlop_put_start(c, ns, &keys, nullptr, nullptr));
  note("plan", orlop_copy_in(nullptr, 0, "x", 1));
  note("plan", orlop_set_checksum(nullptr, 0, 1));
  note("plan", orlop_put_register_copy(nullptr, nullptr));
  note("plan", orlop_put_copy_done(nullptr, 1, 1));
  note("plan", orlop_put_blob(nullptr, nullptr, nullptr));
  note("client", orlop_put_commit(nullptr, nullptr, nullptr));
  note("plan", orlop_put_commit(c, nullptr, nullptr));
  note("plan", orlop_put_abort(c, nullptr));
  note("future", orlop_future_wait(nullptr, 0, &outcome, 1));
  note("ns", orlop_put(c, nullptr, &keys, nullptr, 0, nullptr, &outcome, 1));
  note("ns", orlop_get_start(c, nullptr, &keys, nullptr, &handle, nullptr));
  note("out", orlop_get_start(c, ns, &keys, nullptr, nullptr, nullptr));
  note("handle", orlop_handle_result(nullptr, nullptr));
  note("handle", orlop_get_transfer(c, nullptr, ORLOP_WHOLE_PREFIX, nullptr));
  note("handle", orlop_cancel_get(c, nullptr));
  note("plan", orlop_view(nullptr, 0, 0, &bytes));
  note("plan", orlop_copy_out(nullptr, 0, 0, nullptr, 0));
  note("plan", orlop_report_mismatch(nullptr, 0, 0));
  note("plan", orlop_read_register_copy(nullptr, nullptr));
  note("plan", orlop_read_copy_done(nullptr, 1, 1));
  note("plan", orlop_read_blob(nullptr, nullptr, nullptr));
  note("plan", orlop_release_views(c, nullptr));
  note("copied", orlop_get(c, ns, &keys, nullptr, 0, nullptr, nullptr));
  note("prefix_len", orlop_exists(c, ns, &keys, nullptr, nullptr, 0));
  note("ns", orlop_exists(c, nullptr, &keys, &number, nullptr, 0));
  note("ns", orlop_remove(c, nullptr, &keys, nullptr));
  note("ns", orlop_flush(c, nullptr, nullptr));
  note("ns", orlop_flush_family(c, nullptr, nullptr));
  note("client", orlop_copy_done(nullptr, 1, 1));
  note("size", orlop_canonical_text(nullptr, nullptr, 0, nullptr));
  note("size", orlop_family_text(nullptr, nullptr, 0, nullptr));
  note("size", orlop_parse_descriptor({nullptr, 0}, nullptr, nullptr, 0, nullptr));
  return {};
}

// Calls without a status.
Result<void> null_values(World&) {
  EXPECT_EQ(orlop_ready(nullptr), 0);
  EXPECT_EQ(orlop_segment_id(nullptr), 0U);
  EXPECT_EQ(orlop_incarnation(nullptr), 0U);
  EXPECT_EQ(orlop_namespace_value_len(nullptr), 0U);
  EXPECT_EQ(orlop_namespace_resolved(nullptr), 0);
  EXPECT_EQ(orlop_put_plan_size(nullptr), 0U);
  EXPECT_EQ(orlop_put_plan_prepared(nullptr), 0U);
  EXPECT_EQ(orlop_put_plan_outcome(nullptr, 0), ORLOP_OUTCOME_ABORTED);
  EXPECT_EQ(orlop_put_plan_explanation(nullptr).size, 0U);
  EXPECT_EQ(orlop_put_memory(nullptr, 0).data, nullptr);
  EXPECT_EQ(orlop_future_ready(nullptr), 0);
  EXPECT_EQ(orlop_future_size(nullptr), 0U);
  EXPECT_EQ(orlop_read_plan_size(nullptr), 0U);
  EXPECT_EQ(orlop_read_plan_ranks(nullptr), 0U);
  EXPECT_EQ(orlop_valid_len(nullptr), 0U);
  EXPECT_EQ(orlop_view_unverified(nullptr, 0, 0).data, nullptr);
  EXPECT_EQ(orlop_expected_checksum(nullptr, 0, 0), 0U);
  orlop_client_free(nullptr);
  orlop_namespace_free(nullptr);
  orlop_put_plan_free(nullptr);
  orlop_future_free(nullptr);
  orlop_get_handle_free(nullptr);
  orlop_read_plan_free(nullptr);
  return {};
}

// One open put plan and one open read plan of one client, as plain C has them.
struct Open {
  explicit Open(orlop_client* of, const orlop_namespace* ns, const std::string& name)
      : client(of), text(name) {
    const std::string there = text + "-there";
    const orlop_bytes items[2] = {{there.data(), there.size()}, {text.data(), text.size()}};
    const orlop_keys read{1, &items[0], nullptr, 0}, written{1, &items[1], nullptr, 0};
    const std::vector<std::byte> page = page_of(there);
    const orlop_bytes source{page.data(), page.size()};
    orlop_outcome outcome{};
    EXPECT_EQ(orlop_put(client, ns, &read, &source, 1, nullptr, &outcome, 1), ORLOP_OK);
    EXPECT_EQ(outcome, ORLOP_OUTCOME_STORED);
    orlop_get_handle* used = nullptr;
    EXPECT_EQ(orlop_get_start(client, ns, &read, nullptr, &used, nullptr), ORLOP_OK);
    EXPECT_EQ(orlop_get_transfer(client, used, ORLOP_WHOLE_PREFIX, &views), ORLOP_OK);
    orlop_get_handle_free(used);
    EXPECT_EQ(orlop_get_start(client, ns, &read, nullptr, &handle, nullptr), ORLOP_OK);
    EXPECT_EQ(orlop_put_start(client, ns, &written, nullptr, &plan), ORLOP_OK);
    EXPECT_EQ(orlop_put_plan_outcome(plan, 0), ORLOP_OUTCOME_PREPARED);
  }
  ~Open() {
    orlop_read_plan_free(views);
    orlop_get_handle_free(handle);
    orlop_put_plan_free(plan);
  }
  Open(const Open&) = delete;

  orlop_client* client;
  std::string text;
  orlop_put_plan* plan = nullptr;
  orlop_get_handle* handle = nullptr;
  orlop_read_plan* views = nullptr;
};

Open open_of(World& world, const std::string& name) {
  return Open(world.worker().client.c(), Client::c(world.worker().ns), name);
}

template <class To, class From>
To* cast(From* handle) {
  return reinterpret_cast<To*>(handle);
}

Result<void> wrong_kinds(World& world) {
  const Open open = open_of(world, "kinds");
  const auto expect_wrong = [](orlop_status status, const char* words) {
    EXPECT_EQ(status, ORLOP_WRONG_STATE) << words;
    EXPECT_NE(std::string(orlop_error_message()).find(words), std::string::npos)
        << orlop_error_message();
  };
  expect_wrong(orlop_put_commit(open.client, cast<orlop_put_plan>(open.views), nullptr),
               "plan: is a read plan, give a put plan");
  expect_wrong(orlop_release_views(open.client, cast<orlop_read_plan>(open.plan)),
               "plan: is a put plan, give a read plan");
  expect_wrong(orlop_cancel_get(open.client, cast<orlop_get_handle>(open.plan)),
               "handle: is a put plan, give a get handle");
  expect_wrong(orlop_ping(cast<orlop_client>(open.plan)), "client: is a put plan, give a client");
  std::array<std::uint64_t, 8> nothing{};
  expect_wrong(orlop_ping(cast<orlop_client>(nothing.data())),
               "client: is a pointer to something else");
  // A _free of another type leaves the handle as it is.
  orlop_put_plan_free(cast<orlop_put_plan>(open.views));
  EXPECT_EQ(orlop_read_plan_size(open.views), 1U);
  return {};
}

// Ended in one way, every other way is refused; freeing is always right.
Result<void> ended_twice(World& world) {
  const Open open = open_of(world, "twice"), other = open_of(world, "other");
  orlop_future* future = nullptr;
  EXPECT_EQ(orlop_put_commit(open.client, open.plan, &future), ORLOP_OK);
  EXPECT_EQ(orlop_put_abort(open.client, open.plan), ORLOP_WRONG_STATE);
  EXPECT_EQ(orlop_put_commit(open.client, open.plan, nullptr), ORLOP_WRONG_STATE);
  EXPECT_EQ(orlop_put_plan_size(open.plan), 0U);
  EXPECT_EQ(orlop_put_memory(open.plan, 0).data, nullptr);
  orlop_outcome outcomes[2] = {};
  EXPECT_EQ(orlop_future_size(future), 1U);
  EXPECT_EQ(orlop_future_wait(future, 0, outcomes, 2), ORLOP_INVALID_ARGUMENT);
  EXPECT_EQ(orlop_future_wait(future, kPatience.count(), outcomes, 1), ORLOP_OK);
  EXPECT_EQ(outcomes[0], ORLOP_OUTCOME_STORED);
  orlop_future_free(future);

  EXPECT_EQ(orlop_put_abort(other.client, other.plan), ORLOP_OK);
  EXPECT_EQ(orlop_put_commit(other.client, other.plan, &future), ORLOP_WRONG_STATE);
  EXPECT_EQ(future, nullptr);
  EXPECT_EQ(orlop_cancel_get(open.client, open.handle), ORLOP_OK);
  orlop_read_plan* views = nullptr;
  EXPECT_EQ(orlop_get_transfer(open.client, open.handle, ORLOP_WHOLE_PREFIX, &views),
            ORLOP_WRONG_STATE);
  EXPECT_EQ(views, nullptr);
  EXPECT_EQ(orlop_release_views(open.client, open.views), ORLOP_OK);
  return c_answer(orlop_release_views(open.client, open.views));
}

// A client of its own with plans under way.
struct Second {
  explicit Second(World& world) {
    const std::string socket = world.socket();
    auto options = sized<orlop_client_options>();
    options.socket = {socket.data(), socket.size()};
    options.name = orlop_text_of("second");
    options.call_budget_ms = kPatience.count();
    EXPECT_EQ(orlop_open(&options, &client), ORLOP_OK);
    EXPECT_EQ(orlop_wait_ready(client, kPatience.count()), ORLOP_OK) << orlop_error_message();
    const std::string json = canonical_text(descriptor()).value();
    EXPECT_EQ(orlop_open_namespace_json(client, {json.data(), json.size()}, &ns), ORLOP_OK);
  }
  ~Second() {
    orlop_client_free(client);
    orlop_namespace_free(ns);
  }
  Second(const Second&) = delete;
  orlop_client* client = nullptr;
  orlop_namespace* ns = nullptr;
};

Result<void> closed_with_open_plans(World& world) {
  Second second(world);
  const Open open(second.client, second.ns, "closed");
  EXPECT_EQ(orlop_close(second.client), ORLOP_OK);
  EXPECT_EQ(orlop_close(second.client), ORLOP_OK);
  orlop_bytes bytes{};
  EXPECT_EQ(orlop_view(open.views, 0, 0, &bytes), ORLOP_CLOSED);
  EXPECT_EQ(orlop_copy_in(open.plan, 0, nullptr, 0), ORLOP_CLOSED);
  EXPECT_EQ(orlop_read_plan_size(open.views), 0U);
  return c_answer(orlop_put_commit(second.client, open.plan, nullptr));
}

// Plans, then namespaces outlive the client's handle, and are freed after it.
Result<void> freed_before_its_plans(World& world) {
  Second second(world);
  const Open open(second.client, second.ns, "orphan");
  orlop_client_free(std::exchange(second.client, nullptr));
  std::vector<std::byte> page(kValueLen);
  EXPECT_EQ(orlop_copy_out(open.views, 0, 0, page.data(), page.size()), ORLOP_CLOSED);
  EXPECT_EQ(orlop_namespace_value_len(second.ns), kValueLen);
  return c_answer(orlop_put_abort(world.worker().client.c(), open.plan));
}

// Everything of the parent freed in the child, which harms the parent in nothing.
Result<void> freed_in_a_forked_child(World& world) {
  Open open = open_of(world, "forked");
  const auto refused = in_forked_child([&]() -> Result<void> {
    const auto answer = c_answer(orlop_put_commit(open.client, open.plan, nullptr));
    orlop_read_plan_free(open.views);
    orlop_get_handle_free(open.handle);
    orlop_put_plan_free(open.plan);
    orlop_client_free(open.client);
    return answer;
  });
  EXPECT_EQ(orlop_put_plan_size(open.plan), 1U);
  orlop_bytes bytes{};
  EXPECT_EQ(orlop_view(open.views, 0, 0, &bytes), ORLOP_OK);
  EXPECT_EQ(bytes.size, kValueLen);
  return refused;
}

// A page whose bytes are not what was promised: refused, and everything after it.
Result<void> corrupt_page(World& world) {
  Worker& worker = world.worker();
  const Keys keys(2, "corrupt");
  auto plan = worker.client.put_start(worker.ns, keys);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(plan->copy_in(i, page_of(keys[i])));
  EXPECT_TRUE(plan->set_checksum(0, 12'345));
  EXPECT_TRUE(worker.client.put_commit(*plan)->wait(kPatience).has_value());
  auto handle = worker.client.get_start(worker.ns, keys);
  auto views = worker.client.get_transfer(*handle);
  std::vector<std::byte> page(kValueLen);
  EXPECT_EQ(orlop_valid_len(views->c()), 2U);
  const auto refused = c_answer(orlop_copy_out(views->c(), 0, 0, page.data(), page.size()));
  EXPECT_EQ(orlop_valid_len(views->c()), 0U);
  orlop_bytes bytes{};
  EXPECT_EQ(orlop_view(views->c(), 1, 0, &bytes), ORLOP_CORRUPT);
  EXPECT_EQ(bytes.data, nullptr);
  return refused;
}

Result<void> names(World&) {
  EXPECT_STREQ(orlop_status_name(ORLOP_OK), "ok");
  for (int i = 1; i <= ORLOP_CLOSED; ++i)
    EXPECT_EQ(orlop_status_name(i), to_string(static_cast<ErrorCode>(i)));
  for (int i = 0; i < ORLOP_OUTCOME_COUNT; ++i)
    EXPECT_EQ(orlop_outcome_name(i), to_string(static_cast<Outcome>(i)));
  for (int i = 0; i < ORLOP_MISS_REASON_COUNT; ++i)
    EXPECT_EQ(orlop_miss_reason_name(i), to_string(static_cast<MissReason>(i)));
  EXPECT_STREQ(orlop_status_name(ORLOP_CLOSED), "closed");
  // Numbers of no enum: of a newer library, or garbage.
  for (const int none : {-1, 255, 256, 65535, 65536, INT_MAX, INT_MIN}) {
    EXPECT_STREQ(orlop_status_name(none), "unknown") << none;
    EXPECT_STREQ(orlop_outcome_name(none), "unknown") << none;
    EXPECT_STREQ(orlop_miss_reason_name(none), "unknown") << none;
    EXPECT_STREQ(orlop_engine_name(none), "unknown") << none;
  }
  EXPECT_EQ(orlop_api_version(), ORLOP_API_VERSION);
  return {};
}

}  // namespace

Rows c_handle_rows() {
  using enum Item;
  using Code = ErrorCode;
  return {
      {kCallFromC, "null_everywhere", {}, {}, null_everywhere},
      {kCallFromC, "null_values", {}, {}, null_values},
      {kCallFromC, "wrong_kinds", {}, {}, wrong_kinds},
      {kCallFromC, "ended_twice", Code::kWrongState, {"plan", "released"}, ended_twice},
      {kCallFromC,
       "closed_with_open_plans",
       Code::kClosed,
       {"client was closed"},
       closed_with_open_plans},
      {kCallFromC,
       "freed_before_its_plans",
       Code::kClosed,
       {"client was closed"},
       freed_before_its_plans},
      {kCallFromC,
       "freed_in_a_forked_child",
       Code::kForkedChild,
       {"open a new Client"},
       freed_in_a_forked_child},
      {kCallFromC,
       "corrupt_page",
       Code::kCorrupt,
       {"page 0", "checksum", "all after it"},
       corrupt_page},
      {kCallFromC, "names", {}, {}, names},
  };
}

}  // namespace orlop::negative_test
