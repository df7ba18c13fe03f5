// SPDX-License-Identifier: Apache-2.0
// Page caches and their jobs from C: waits, ends in any order, kinds, clients and processes that
// go.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "c_paged.h"
#include "child_process.h"

namespace orlop::negative_test {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;
constexpr std::size_t kHuge = std::numeric_limits<std::size_t>::max();

orlop_status wait_for_wrong_places(Paged& p) {
  EXPECT_EQ(p.open(), ORLOP_OK);
  p.start_get("places");
  std::array<orlop_outcome, 3> outcomes{};
  EXPECT_EQ(orlop_backup_wait(p.backup, 0, nullptr, 2), ORLOP_INVALID_ARGUMENT);
  EXPECT_EQ(orlop_backup_wait(p.backup, 0, outcomes.data(), kHuge), ORLOP_INVALID_ARGUMENT);
  EXPECT_EQ(orlop_backup_wait(p.backup, -7, outcomes.data(), 2), ORLOP_OK);  // it is over
  EXPECT_EQ(p.bring_back(), ORLOP_OK);
  std::uint32_t valid = 0;
  EXPECT_EQ(orlop_restore_wait(p.restore, std::numeric_limits<std::int64_t>::max(), &valid, 1),
            ORLOP_OK);
  EXPECT_EQ(valid, 2U);
  EXPECT_EQ(orlop_restore_wait(p.restore, 0, nullptr, 1), ORLOP_INVALID_ARGUMENT);
  EXPECT_EQ(orlop_restore_range_done(p.restore, kHuge), 0);
  EXPECT_EQ(orlop_restore_stream_wait(p.restore, kHuge, nullptr), ORLOP_INVALID_ARGUMENT);
  EXPECT_EQ(orlop_restore_cancel(p.restore), ORLOP_OK);  // too late
  EXPECT_EQ(orlop_restore_wait(p.restore, 0, &valid, 1), ORLOP_OK);
  return orlop_backup_wait(p.backup, 0, outcomes.data(), 3);
}

orlop_status plan_used_up(Paged& p) {
  EXPECT_EQ(p.open(), ORLOP_OK);
  p.start_put("used-up");
  EXPECT_EQ(p.back_up(), ORLOP_OK);
  EXPECT_EQ(orlop_put_commit(p.client, p.plan, nullptr), ORLOP_WRONG_STATE);
  EXPECT_EQ(orlop_put_abort(p.client, p.plan), ORLOP_WRONG_STATE);
  orlop_backup* again = nullptr;
  const orlop_status status = orlop_backup_pages(p.cache, &p.put, 1, nullptr, &again);
  EXPECT_EQ(again, nullptr);
  return status;
}

orlop_status views_released(Paged& p) {
  EXPECT_EQ(p.open(), ORLOP_OK);
  p.start_get("released");
  EXPECT_EQ(orlop_release_views(p.client, p.views), ORLOP_OK);
  return p.bring_back();
}

// Nobody waits: everything is freed while the job may still run.
orlop_status freed_under_way(Paged& p) {
  EXPECT_EQ(p.open(), ORLOP_OK);
  p.start_get("under-way");
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(p.bring_back(), ORLOP_OK) << orlop_error_message();
    const orlop_status cancelled = i % 2 == 0 ? orlop_restore_cancel(p.restore) : ORLOP_OK;
    EXPECT_EQ(cancelled, ORLOP_OK);
    orlop_restore_free(std::exchange(p.restore, nullptr));
  }
  orlop_read_plan_free(std::exchange(p.views, nullptr));
  orlop_page_cache_free(std::exchange(p.cache, nullptr));
  return ORLOP_OK;
}

orlop_status wrong_kinds(Paged& p) {
  EXPECT_EQ(p.open(), ORLOP_OK);
  p.start_get("page-kinds");
  const auto wrong = [](orlop_status status, const char* words) {
    EXPECT_EQ(status, ORLOP_WRONG_STATE) << words;
    EXPECT_NE(std::strstr(orlop_error_message(), words), nullptr) << orlop_error_message();
  };
  wrong(orlop_backup_cancel(reinterpret_cast<orlop_backup*>(p.cache)),
        "backup: is a page cache, give a backup");
  wrong(orlop_restore_cancel(reinterpret_cast<orlop_restore*>(p.backup)),
        "restore: is a backup, give a restore");
  wrong(orlop_ping(reinterpret_cast<orlop_client*>(p.cache)),
        "client: is a page cache, give a client");
  EXPECT_EQ(orlop_page_cache_engine(reinterpret_cast<orlop_page_cache*>(p.client), 1, 0),
            ORLOP_ENGINE_AUTO);
  EXPECT_EQ(orlop_backup_size(reinterpret_cast<orlop_backup*>(p.cache)), 0U);
  EXPECT_EQ(orlop_restore_done(reinterpret_cast<orlop_restore*>(p.cache)), 0);
  // A _free of another type leaves the handle as it is.
  orlop_page_cache_free(reinterpret_cast<orlop_page_cache*>(p.backup));
  orlop_backup_free(reinterpret_cast<orlop_backup*>(p.cache));
  EXPECT_EQ(orlop_backup_size(p.backup), 2U);
  EXPECT_EQ(orlop_page_cache_engine(p.cache, 1, 0), ORLOP_ENGINE_HOST);
  auto stats = sized<orlop_page_cache_stats>();
  stats.struct_size = 16;
  return orlop_page_cache_read_stats(p.cache, &stats);
}

// Every call with NULL handles and NULL results: refused, by name.
orlop_status null_everywhere(Paged& p) {
  EXPECT_EQ(p.open(), ORLOP_OK);
  std::uint32_t number = 0;
  std::size_t size = 0;
  orlop_outcome outcome{};
  const auto null = [](const char* names, orlop_status status) {
    EXPECT_EQ(status, ORLOP_INVALID_ARGUMENT) << names;
    EXPECT_EQ(std::string(orlop_error_message()).rfind(std::string(names) + ": is NULL", 0), 0U)
        << orlop_error_message();
  };
  orlop_page_cache* none = nullptr;
  null("client", orlop_page_cache_open(nullptr, &p.layout, kValueLen, nullptr, &none));
  null("out", orlop_page_cache_open(p.client, &p.layout, kValueLen, nullptr, nullptr));
  null("layout", orlop_layout_value_len(nullptr, nullptr));
  null("cache", orlop_page_cache_describe(nullptr, nullptr, 0, &size));
  null("size", orlop_page_cache_describe(p.cache, nullptr, 0, nullptr));
  null("cache", orlop_page_cache_read_stats(nullptr, nullptr));
  null("stats", orlop_page_cache_read_stats(p.cache, nullptr));
  null("cache", orlop_backup_pages(nullptr, nullptr, 0, nullptr, nullptr));
  null("backup", orlop_backup_wait(nullptr, 0, &outcome, 1));
  null("backup", orlop_backup_stream_wait(nullptr, nullptr));
  null("backup", orlop_backup_cancel(nullptr));
  null("cache", orlop_restore_pages(nullptr, nullptr, 0, nullptr, nullptr));
  null("restore", orlop_restore_wait(nullptr, 0, &number, 1));
  null("restore", orlop_restore_stream_wait(nullptr, 0, nullptr));
  null("restore", orlop_restore_cancel(nullptr));
  EXPECT_EQ(orlop_backup_done(nullptr) + orlop_restore_done(nullptr), 0);
  EXPECT_EQ(orlop_backup_size(nullptr) + orlop_restore_ranges(nullptr), 0U);
  EXPECT_EQ(orlop_restore_range_done(nullptr, 0), 0);
  EXPECT_EQ(orlop_page_cache_engine(nullptr, 1, 1), ORLOP_ENGINE_AUTO);
  EXPECT_STREQ(orlop_engine_name(-1), "unknown");
  orlop_page_cache_free(nullptr);
  orlop_backup_free(nullptr);
  orlop_restore_free(nullptr);
  char byte = 'x';
  const orlop_status status = orlop_page_cache_describe(p.cache, &byte, 1, &size);
  EXPECT_EQ(byte, 'x');
  EXPECT_GT(size, 1U);
  return status;
}

// No items at all: over at once, nothing happened.
orlop_status nothing_to_do(Paged& p) {
  EXPECT_EQ(p.open(), ORLOP_OK);
  EXPECT_EQ(orlop_backup_pages(p.cache, nullptr, 0, nullptr, &p.backup), ORLOP_OK)
      << orlop_error_message();
  EXPECT_EQ(orlop_backup_size(p.backup), 0U);
  orlop_outcome outcome{};
  EXPECT_EQ(orlop_backup_wait(p.backup, 0, &outcome, 0), ORLOP_OK);
  EXPECT_EQ(orlop_restore_pages(p.cache, nullptr, 0, nullptr, &p.restore), ORLOP_OK);
  std::uint32_t valid = 7;
  return orlop_restore_wait(p.restore, 0, &valid, 0);
}

// ---- clients and processes that go -------------------------------------------------------------

Result<void> of_a_closed_client(World& world) {
  Paged paged(world);
  const std::string socket = world.socket();
  auto options = sized<orlop_client_options>();
  options.socket = {socket.data(), socket.size()};
  orlop_client* other = nullptr;
  EXPECT_EQ(orlop_open(&options, &other), ORLOP_OK);
  EXPECT_EQ(orlop_wait_ready(other, kPatience.count()), ORLOP_OK);
  EXPECT_EQ(orlop_page_cache_open(other, &paged.layout, kValueLen, nullptr, &paged.cache),
            ORLOP_OK);
  paged.start_put("closed-cache");  // of the worker's client
  EXPECT_EQ(paged.back_up(), ORLOP_WRONG_STATE);
  EXPECT_NE(std::strstr(orlop_error_message(), "another client"), nullptr);
  EXPECT_EQ(orlop_close(other), ORLOP_OK);
  auto answer = c_answer(paged.back_up());
  orlop_client_free(other);
  EXPECT_EQ(paged.back_up(), ORLOP_CLOSED);
  std::size_t size = 0;
  EXPECT_EQ(orlop_page_cache_describe(paged.cache, nullptr, 0, &size), ORLOP_OK);
  return answer;
}

// Used and freed in the child, which harms the parent in nothing.
Result<void> of_a_parent(World& world) {
  Paged paged(world);
  EXPECT_EQ(paged.open(), ORLOP_OK);
  paged.start_get("page-fork");
  EXPECT_EQ(paged.bring_back(), ORLOP_OK);
  const auto refused = in_forked_child([&]() -> Result<void> {
    const auto answer = c_answer(orlop_restore_pages(paged.cache, &paged.get, 1, nullptr, nullptr));
    orlop_restore* job = nullptr;
    const auto again = c_answer(orlop_restore_pages(paged.cache, &paged.get, 1, nullptr, &job));
    orlop_restore_free(paged.restore);
    orlop_backup_free(paged.backup);
    orlop_page_cache_free(paged.cache);
    return answer ? answer : again;
  });
  std::uint32_t valid = 0;
  EXPECT_EQ(orlop_restore_wait(paged.restore, kPatience.count(), &valid, 1), ORLOP_OK);
  EXPECT_EQ(valid, 2U);
  return refused;
}

}  // namespace

Rows c_page_job_rows() {
  using Code = ErrorCode;
  return {
      paged_row("wait_for_wrong_places", kInvalid, {"outcomes", "3 entries", "2"},
                wait_for_wrong_places),
      paged_row("put_plan_used_up_by_a_backup", Code::kWrongState, {"items[0]", "plan"},
                plan_used_up),
      paged_row("restore_of_released_views", Code::kWrongState, {"items[0]", "plan"},
                views_released),
      paged_row("freed_under_way", {}, {}, freed_under_way),
      paged_row("pages_wrong_kinds", kInvalid, {"stats.struct_size", "is 16"}, wrong_kinds),
      paged_row("pages_null_everywhere", kInvalid, {"buffer", "1 bytes", "are needed"},
                null_everywhere),
      paged_row("nothing_to_do", {}, {}, nothing_to_do),
      {Item::kCallFromC,
       "cache_of_a_closed_client",
       Code::kClosed,
       {"client was closed"},
       of_a_closed_client},
      {Item::kCallFromC, "cache_of_a_parent", Code::kForkedChild, {"parent"}, of_a_parent},
  };
}

}  // namespace orlop::negative_test
