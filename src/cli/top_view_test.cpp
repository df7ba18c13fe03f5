// SPDX-License-Identifier: Apache-2.0
#include "cli/top_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace orlop::cli {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

const Painter kNoColour(false);
constexpr MonoNs kSecond = kNsPerSecond;

Json sample(std::uint64_t step = 0, unsigned clients = 2, unsigned tenants = 2) {
  Json status = Json::parse(R"({
    "state": "ready", "segment_id": "7", "incarnation": "1", "restarts": 2, "uptime_seconds": 125.0,
    "memory": {"value_bytes": 1073741824, "readable_bytes": 536870912, "prepared_bytes": 107374182},
    "pinned_bytes": 214748364, "oldest_read_plan_seconds": 1.5, "oldest_put_seconds": 0.25,
    "waiting_puts": 0, "step_latency": {"count": 9, "p50_us": 2.5, "p95_us": 4.0, "p99_us": 9.0}})");
  status["traffic"] = {{"keys_asked", 1000 + step * 1000},
                       {"keys_hit", 900 + step * 930},
                       {"bytes_read", step * 2'500'000'000},
                       {"keys_stored", step * 70},
                       {"bytes_written", step * 500'000'000}};
  status["counters"] = {{"slots_evicted", step * 5}, {"bytes_evicted", step * 327'680}};
  status["clients"] = Json::array();
  for (unsigned i = 0; i < clients; ++i) {
    status["clients"].push_back({{"client", i},
                                 {"name", "worker-" + std::to_string(i)},
                                 {"state", "attached"},
                                 {"pid", 4000 + i},
                                 {"pinned_bytes", i * 65536},
                                 {"prepared_bytes", 0},
                                 {"keys_asked", 100},
                                 {"keys_hit", 75},
                                 {"oldest_read_plan_seconds", 1.5},
                                 {"get_latency", {{"count", 5}, {"p50_us", 12.0}}}});
  }
  status["namespaces"] = Json::array();
  for (unsigned i = 0; i < tenants; ++i) {
    status["namespaces"].push_back({{"row", i},
                                    {"readable_bytes", (i + 1) * 67108864},
                                    {"descriptor",
                                     {{"engine", "vllm"},
                                      {"model", "llama-" + std::to_string(i)},
                                      {"dtype", "bf16"},
                                      {"tp_rank", 0},
                                      {"tp_size", 2}}}});
  }
  return status;
}

TopHistory running(unsigned clients = 2, unsigned tenants = 2) {
  TopHistory history("/run/orlop/orlop.sock");
  history.add(sample(0, clients, tenants), 10 * kSecond);
  history.add(sample(1, clients, tenants), 11 * kSecond);
  return history;
}

void expect_fits(const std::string& screen, ScreenSize size) {
  std::istringstream lines(screen);
  std::size_t rows = 0;
  for (std::string line; std::getline(lines, line); ++rows) {
    EXPECT_LE(visible_width(line), size.columns) << line;
  }
  EXPECT_LE(rows, size.rows) << screen;
}

TEST(TopView, Shows_what_a_node_does) {
  const ScreenSize size{120, 40};
  const std::string screen = top_view(running(), size, kNoColour);
  expect_fits(screen, size);
  for (const char* part : {"ready  up 2 m 05 s, 2 restarts (0 seen)  /run/orlop/orlop.sock",
                           "[======#########+++............] 1.00 GiB",
                           "hits     93.0 %  asked 1,000/s  read 2.50 GB/s",
                           "stored   70/s  written 0.50 GB/s  evicted 5/s", "p50 2.50 us",
                           "read plan 1.50 s", "tenants  2", "vllm llama-1 bf16 tp0/2", "128 MiB",
                           "[#.........]", "clients  2", "1 worker-1", "75.0 %", "12.0 us"}) {
    EXPECT_THAT(screen, HasSubstr(part));
  }
  EXPECT_LT(screen.find("llama-1"), screen.find("llama-0")) << "the largest first";
  EXPECT_LT(screen.find("worker-1"), screen.find("worker-0")) << "the largest holder first";
}

TEST(TopView, Fits_every_size) {
  for (const unsigned clients : {0u, 2u, 500u}) {
    for (const unsigned tenants : {0u, 2u, 64u}) {
      const TopHistory history = running(clients, tenants);
      for (const ScreenSize size : {ScreenSize{80, 24}, ScreenSize{40, 10}, ScreenSize{1, 1},
                                    ScreenSize{20, 4}, ScreenSize{300, 100}}) {
        expect_fits(top_view(history, size, kNoColour), size);
        expect_fits(top_view(history, size, Painter(true)), size);
      }
    }
  }
}

TEST(TopView, At_80_by_24_both_lists_are_there) {
  const std::string screen = top_view(running(500, 64), {80, 24}, kNoColour);
  EXPECT_THAT(screen, HasSubstr("tenants  64"));
  EXPECT_THAT(screen, HasSubstr("and 58 more"));
  EXPECT_THAT(screen, HasSubstr("clients  500"));
  EXPECT_THAT(screen, HasSubstr("499 worker-499"));
  EXPECT_THAT(screen, HasSubstr("and 493 more"));
  EXPECT_EQ(std::ranges::count(screen, '\n'), 24);
}

TEST(TopView, At_40_by_10_the_head_and_a_tenant_are_there) {
  const std::string screen = top_view(running(), {40, 10}, kNoColour);
  EXPECT_THAT(screen, HasSubstr("hits     93.0 %"));
  EXPECT_THAT(screen, HasSubstr("tenants  2"));
  EXPECT_THAT(screen, HasSubstr("vllm llama"));
}

TEST(TopView, Zero_clients_is_said) {
  const std::string screen = top_view(running(0, 0), {80, 24}, kNoColour);
  EXPECT_THAT(screen, HasSubstr("clients  0"));
  EXPECT_THAT(screen, Not(HasSubstr("more")));
}

TEST(TopView, Long_and_hostile_names_are_cut_and_masked) {
  Json status = sample();
  status["clients"][1]["name"] = std::string(500, 'x') + "\033[2J";
  status["namespaces"][1]["descriptor"]["model"] = "m\r\n" + std::string(500, 'y');
  TopHistory history("/run/\033[31m.sock");
  history.add(status, kSecond);
  for (const ScreenSize size : {ScreenSize{80, 24}, ScreenSize{40, 10}}) {
    const std::string screen = top_view(history, size, kNoColour);
    expect_fits(screen, size);
    EXPECT_EQ(screen.find('\033'), std::string::npos);
    EXPECT_EQ(screen.find('\r'), std::string::npos);
    EXPECT_THAT(screen, HasSubstr("\u2026"));
  }
}

TEST(TopView, Without_a_node_says_so_and_goes_on) {
  TopHistory history = running();
  history.lose("no node runs at /run/orlop/orlop.sock");
  const std::string lost = top_view(history, {80, 24}, kNoColour);
  EXPECT_THAT(lost, HasSubstr("no node, retrying"));
  EXPECT_THAT(lost, HasSubstr("no node runs at /run/orlop/orlop.sock"));
  EXPECT_THAT(lost, Not(HasSubstr("tenants")));
  Json status = sample();
  status["restarts"] = 3;
  history.add(status, 20 * kSecond);
  const std::string back = top_view(history, {80, 24}, kNoColour);
  EXPECT_THAT(back, HasSubstr("3 restarts (1 seen)"));
  EXPECT_THAT(back, HasSubstr("hits     -  asked -  read -")) << "no rate over a restart";
}

TEST(TopView, What_a_node_does_not_tell_is_a_dash) {
  TopHistory history("s");
  history.add(Json::object(), kSecond);
  history.add(Json::parse(R"({"clients": [1, {}], "namespaces": [null], "memory": 3})"),
              2 * kSecond);
  const std::string screen = top_view(history, {80, 24}, kNoColour);
  EXPECT_THAT(screen, HasSubstr("hits     -  asked -  read -"));
  EXPECT_THAT(screen, HasSubstr("oldest   read plan -  put -"));
}

TEST(TopHistory, Rates_are_of_one_server_only) {
  TopHistory history("s");
  EXPECT_EQ(history.rates().keys_asked, std::nullopt);
  history.add(sample(1), kSecond);
  EXPECT_EQ(history.rates().keys_asked, std::nullopt);
  history.add(sample(3), 2 * kSecond);
  EXPECT_DOUBLE_EQ(history.rates().keys_asked.value(), 2000);
  EXPECT_DOUBLE_EQ(history.rates().hit_rate().value(), 0.93);
  Json next = sample(9);
  next["restarts"] = 3;
  history.add(next, 3 * kSecond);
  EXPECT_EQ(history.rates().keys_asked, std::nullopt);
  EXPECT_EQ(history.restarts_seen(), 1u);
  history.add(next, 4 * kSecond);
  EXPECT_EQ(history.rates().keys_asked.value(), 0);
  EXPECT_EQ(history.rates().hit_rate(), std::nullopt) << "nothing was asked";
}

TEST(TopJson, A_line_has_rates_and_the_lists) {
  TopHistory history = running();
  const Json line = top_json(history, "now");
  EXPECT_EQ(line["node"], "ready");
  EXPECT_DOUBLE_EQ(line["rates"]["keys_asked_per_second"].get<double>(), 1000);
  EXPECT_EQ(line["clients"].size(), 2u);
  history.lose("gone");
  const Json lost = top_json(history, "now");
  EXPECT_EQ(lost["node"], "none");
  EXPECT_EQ(lost["why"], "gone");
  EXPECT_TRUE(lost["rates"]["hit_rate"].is_null());
}

TEST(Clipped, Escape_sequences_are_kept_whole_and_closed) {
  EXPECT_EQ(clipped("\033[1mabc\033[0mdef", 4), "\033[1mabc\033[0md\033[0m");
  EXPECT_EQ(clipped("abc", 3), "abc");
  EXPECT_EQ(clipped("abc", 2), "ab");
  EXPECT_EQ(shortened("abcdef", 4), "abc\u2026");
  EXPECT_EQ(shortened("\u00e4\u00f6\u00fc", 3), "\u00e4\u00f6\u00fc");
  EXPECT_EQ(shortened("abc", 0), "");
}

}  // namespace
}  // namespace orlop::cli
