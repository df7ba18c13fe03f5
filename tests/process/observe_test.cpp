// SPDX-License-Identifier: Apache-2.0
// A real node and two clients: every kind of hit and miss, and the exact numbers in /status.json
// and /metrics. The numbers of a client are final when it has detached; until then they are polled
// for.
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "daemon.h"
#include "orlop/client.h"

namespace orlop::process_test {
namespace {

constexpr std::uint32_t kValueLen = 64 * 1024;
constexpr Milliseconds kLong{20'000};

NamespaceDescriptor descriptor(std::uint32_t rank) {
  NamespaceDescriptor d;
  d.engine = "test";
  d.layout = "test-1/flat";
  d.model = "observed";
  d.revision = "r1";
  d.dtype = "u8";
  d.page_tokens = 16;
  d.value_len = kValueLen;
  d.tp_size = 2;
  d.tp_rank = rank;
  return d;
}

struct Worker {
  Worker(const Daemon& daemon, const char* name, std::uint32_t rank)
      : client({.socket = daemon.socket(), .name = name, .call_budget = kLong}) {
    EXPECT_TRUE(client.wait_ready(kLong)) << client.last_attach_error().message;
    ns = client.open_namespace(descriptor(rank)).value();
  }
  // Outcomes of one page each, in one put.
  std::vector<Outcome> put(const std::string& prefix, int first, int count) {
    const auto texts = names(prefix, first, count);
    const std::vector<Key> keys(texts.begin(), texts.end());
    auto plan = client.put_start(ns, keys).value();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (plan.outcome(i) == Outcome::kPrepared) plan.memory(i)[0] = std::byte{1};
    }
    return client.put_commit(plan).value().wait(kLong).value();
  }
  // Keys hit of a read that is released at once.
  std::uint32_t get(const std::string& prefix, int first, int count) {
    const auto texts = names(prefix, first, count);
    const std::vector<Key> keys(texts.begin(), texts.end());
    auto handle = client.get_start(ns, keys).value();
    const std::uint32_t hit = handle.result().transferable_len;
    auto plan = client.get_transfer(handle).value();
    EXPECT_TRUE(client.release_views(plan).has_value());
    return hit;
  }
  static std::vector<std::string> names(const std::string& prefix, int first, int count) {
    std::vector<std::string> out;
    for (int i = first; i < first + count; ++i) out.push_back(prefix + std::to_string(i));
    return out;
  }
  Client client;
  Namespace ns;
};

class ObserveTest : public ::testing::Test {
 protected:
  nlohmann::json status() const {
    return nlohmann::json::parse(http_get(daemon.status().admin, "/status.json").value());
  }
  nlohmann::json client_named(const std::string& name) const {
    const auto all = status();
    for (const auto& client : all["clients"])
      if (client["name"] == name) return client;
    return {};
  }
  // Until its report has come: it says so itself, once a second.
  bool told(const std::string& name, const std::string& field, std::uint64_t value) const {
    return eventually([&] {
      const auto client = client_named(name);
      return client.is_object() && client[field] == value;
    });
  }

  TemporaryFolder folder;
  Daemon daemon{folder.path(), {"--capacity", "16MiB"}};
};

TEST_F(ObserveTest, Hits_and_misses_by_cause_are_exact) {
  ASSERT_TRUE(daemon.wait_serving()) << daemon.log();
  auto a = std::make_unique<Worker>(daemon, "a", 0), b = std::make_unique<Worker>(daemon, "b", 1);

  EXPECT_EQ(a->get("page", 0, 4), 0u);  // never written
  EXPECT_EQ(a->put("page", 0, 4), std::vector<Outcome>(4, Outcome::kStored));
  EXPECT_EQ(a->get("page", 0, 4), 4u);
  EXPECT_EQ(a->get("page", 0, 6), 4u);  // page4: never written
  EXPECT_EQ(b->get("page", 0, 4), 0u);  // page0: rank 0 has it

  EXPECT_EQ(status()["namespaces"][0]["touches"], 8);  // drained while page3 is still here
  const auto keys = Worker::names("page", 3, 1);
  EXPECT_EQ(a->client.remove(a->ns, std::vector<Key>{keys[0]}).value(), 1u);
  EXPECT_EQ(a->get("page", 3, 1), 0u);  // removed

  const auto refused = a->put("huge", 0, 1'000);  // over the cap of reserved bytes
  EXPECT_EQ(refused.back(), Outcome::kOverQuota);
  EXPECT_EQ(a->get("huge", 999, 1), 0u);  // refused

  // Until page0 had to go.
  for (int i = 0; a->client.exists(a->ns, std::vector<Key>{"page0"}).value().prefix_len > 0; ++i) {
    ASSERT_LT(i, 1'000);
    a->put("filler" + std::to_string(i) + "-", 0, 16);
  }
  EXPECT_EQ(a->get("page", 0, 1), 0u);  // evicted

  EXPECT_EQ(a->put("late", 0, 1), std::vector<Outcome>(1, Outcome::kStored));
  ASSERT_TRUE(a->client.flush(a->ns).has_value());
  EXPECT_EQ(a->get("late", 0, 1), 0u);  // flushed

  ASSERT_TRUE(told("a", "gets", 7)) << client_named("a").dump(2);
  const auto alive = client_named("a");
  EXPECT_EQ(alive["pid"], static_cast<unsigned>(::getpid()));
  EXPECT_EQ(alive["keys_asked"], 4 + 4 + 6 + 1 + 1 + 1 + 1);
  EXPECT_EQ(alive["keys_hit"], 4 + 4);
  EXPECT_EQ(alive["bytes_read"], 8 * kValueLen);
  EXPECT_EQ(alive["misses"]["not_found"], 6);
  EXPECT_EQ(alive["open_read_plans"], 0);
  EXPECT_EQ(alive["oldest_read_plan_seconds"], 0);
  EXPECT_EQ(alive["get_latency"]["count"], 1);  // of every eighth
  EXPECT_EQ(alive["put_latency"]["count"], alive["puts"]);
  EXPECT_GT(alive["put_latency"]["p50_us"], 0);

  const auto all = status();
  const nlohmann::json of_a = {{"never_written", 2}, {"evicted", 1}, {"removed", 1},
                               {"flushed", 1},       {"refused", 1}, {"other_namespace", 0}};
  EXPECT_EQ(all["namespaces"][0]["missed"], of_a);
  EXPECT_EQ(all["namespaces"][1]["missed"]["other_namespace"], 1);
  EXPECT_EQ(all["namespaces"][0]["readable_bytes"], 0);  // flushed
  EXPECT_EQ(all["namespaces"][0]["touches"], 8);
  EXPECT_EQ(all["namespaces"][0]["keys_offered"], alive["keys_put"]);
  EXPECT_EQ(all["namespaces"][0]["keys_stored"], alive["keys_stored"]);
  EXPECT_GE(all["namespaces"][0]["evicted_slots"], 1);
  EXPECT_TRUE(all["namespaces"][0]["seconds_since_hit"].is_number());
  EXPECT_TRUE(all["namespaces"][1]["seconds_since_put"].is_null());

  // What left stays in the sums.
  a.reset();
  b.reset();
  ASSERT_TRUE(eventually([&] { return status()["clients"].empty(); }));
  const auto left = status()["traffic"];
  EXPECT_EQ(left["gets"], 8);
  EXPECT_EQ(left["keys_asked"], 18 + 4);
  EXPECT_EQ(left["keys_hit"], 8);
  EXPECT_EQ(left["misses"]["not_found"], 7);
  EXPECT_EQ(left["keys_stored"], alive["keys_stored"]);
  EXPECT_EQ(left["bytes_written"], alive["bytes_written"]);
  EXPECT_EQ(left["missed"]["never_written"], 2);
  EXPECT_EQ(left["missed"]["other_namespace"], 1);

  const auto metrics = daemon.metrics();
  EXPECT_EQ(metrics.at("orlop_gets_total"), 8);
  EXPECT_EQ(metrics.at("orlop_get_keys_asked_total"), 22);
  EXPECT_EQ(metrics.at("orlop_get_keys_hit_total"), 8);
  EXPECT_EQ(metrics.at("orlop_get_bytes_total"), 8 * kValueLen);
  EXPECT_EQ(metrics.at("orlop_get_misses_total{reason=\"not_found\"}"), 7);
  const std::pair<const char*, int> causes[] = {{"never_written", 2}, {"evicted", 1},
                                                {"removed", 1},       {"flushed", 1},
                                                {"refused", 1},       {"other_namespace", 1}};
  for (const auto& [cause, count] : causes) {
    EXPECT_EQ(metrics.at("orlop_missed_keys_total{cause=\"" + std::string(cause) + "\"}"), count)
        << cause;
  }
  EXPECT_EQ(metrics.at("orlop_missed_keys_lost_total"), 0);
  EXPECT_EQ(metrics.at("orlop_get_seconds_count"), 2);  // the first of each client
  EXPECT_EQ(metrics.at("orlop_get_seconds_bucket{le=\"+Inf\"}"), 2);
  EXPECT_EQ(metrics.at("orlop_namespace_missed_keys_total{namespace=\"0\",model=\"observed\","
                       "cause=\"evicted\"}"),
            1);
}

TEST_F(ObserveTest, Oldest_plans_are_shown_and_a_new_server_counts_from_0) {
  ASSERT_TRUE(daemon.wait_serving()) << daemon.log();
  Worker worker(daemon, "holder", 0);
  worker.put("page", 0, 2);
  const auto texts = Worker::names("page", 0, 2);
  const std::vector<Key> keys(texts.begin(), texts.end());
  auto handle = worker.client.get_start(worker.ns, keys).value();
  auto plan = worker.client.get_transfer(handle).value();
  auto put = worker.client.put_start(worker.ns, std::vector<Key>{"unfinished"}).value();

  ASSERT_TRUE(eventually(
      [&] { return client_named("holder").value("oldest_read_plan_seconds", 0.0) > 0; }));
  auto all = status();
  EXPECT_EQ(all["clients"][0]["open_read_plans"], 1);
  EXPECT_GT(all["clients"][0]["oldest_put_seconds"], 0);
  EXPECT_GT(all["clients"][0]["attached_seconds"], 0);
  EXPECT_GT(all["oldest_read_plan_seconds"], 0);
  EXPECT_GT(all["oldest_put_seconds"], 0);
  EXPECT_EQ(all["pinned_bytes"], 2 * kValueLen);
  EXPECT_EQ(all["traffic"]["gets"], 1);
  EXPECT_EQ(daemon.metric("orlop_pinned_bytes"), 2 * kValueLen);

  daemon.kill_server();
  ASSERT_TRUE(daemon.wait_serving(1));
  ASSERT_TRUE(eventually([&] { return status()["clients"][0]["state"] == "attached"; }));
  all = status();
  EXPECT_EQ(all["traffic"]["gets"], 0);
  EXPECT_EQ(all["clients"][0]["gets"], 1);  // the client's own number goes on
  EXPECT_GT(all["clients"][0]["oldest_read_plan_seconds"], 0);
  worker.get("page", 0, 2);
  EXPECT_TRUE(eventually([&] { return status()["traffic"]["gets"] == 1; }));

  EXPECT_TRUE(worker.client.release_views(plan).has_value());
  EXPECT_TRUE(worker.client.put_abort(put).has_value());
  EXPECT_TRUE(eventually(
      [&] { return client_named("holder").value("oldest_read_plan_seconds", 1.0) == 0; }));
}

}  // namespace
}  // namespace orlop::process_test
