// SPDX-License-Identifier: Apache-2.0
#include "world.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace orlop::negative_test {

using process_test::Daemon;
using process_test::eventually;

World::World(WorldOptions options) : options_(std::move(options)) {
  daemon_ = std::make_unique<Daemon>(folder_.path(), options_.daemon, options_.start);
  if (!daemon_->wait_serving()) return;
  worker_.emplace(Worker::options(socket(), "worker"));
}

bool World::start_another_daemon() {
  daemon_->wait_exit();
  daemon_ = nullptr;  // the old one is gone before the new one takes its socket
  daemon_ = std::make_unique<Daemon>(folder_.path(), options_.daemon, options_.start);
  return daemon_->wait_serving() &&
         eventually([&] { return worker_->client.ready() && worker_->ns.resolved(); });
}

std::string World::what_is_left() const {
  const auto text = process_test::http_get(daemon_->status().admin, "/status.json");
  const auto metrics = daemon_->metrics();
  if (!text || metrics.empty()) return "the node does not tell its state";
  const auto status = nlohmann::json::parse(*text);
  std::string left;
  const auto want_zero = [&left](const std::string& what, double value) {
    if (value != 0) left += what + " is " + std::to_string(value) + "; ";
  };
  // The two endpoints tell the same story, each in itself complete.
  double sum = 0;
  for (const auto& [state, count] : status["memory"]["slots"].items()) sum += count.get<double>();
  want_zero("slots by state minus slots_total",
            sum - status["memory"]["slots_total"].get<double>());
  double metric_sum = 0;
  for (const auto& [name, value] : metrics) {
    if (name.starts_with("orlop_slots{")) metric_sum += value;
    if (name.starts_with("orlop_client_pinned_bytes{") ||
        name.starts_with("orlop_client_prepared_bytes{"))
      want_zero(name, value);
  }
  want_zero("orlop_slots minus orlop_slots_assigned",
            metric_sum - metrics.at("orlop_slots_assigned"));
  want_zero("prepared slots", status["memory"]["slots"]["prepared"].get<double>());
  for (const char* name : {"orlop_prepared_bytes", "orlop_open_puts", "orlop_waiting_puts",
                           "orlop_doomed_slots", "orlop_pinned_groups", "orlop_handshakes"})
    want_zero(name, metrics.at(name));
  for (const auto& client : status["clients"]) {
    const std::string name = "client " + client["name"].get<std::string>();
    for (const char* field : {"pinned_pages", "prepared_slots", "open_puts"})
      want_zero(name + " " + field, client[field].get<double>());
    if (client["state"] != "attached") left += name + " is not attached; ";
  }
  want_zero("clients besides the worker", static_cast<double>(status["clients"].size()) - 1);
  return left;
}

void World::expect_sound() {
  const ClientStats stats = worker_->client.stats();
  EXPECT_EQ(stats.open_put_plans, 0U);
  EXPECT_EQ(stats.open_read_plans, 0U);
  EXPECT_EQ(stats.open_handles, 0U);
  EXPECT_EQ(stats.pinned_bytes, 0U);
  std::string left;
  EXPECT_TRUE(eventually([&] { return (left = what_is_left()).empty(); }, 10)) << left << "\n"
                                                                               << daemon_->log();
  const Keys fresh(1, "fresh", static_cast<std::size_t>(fresh_++));
  const auto outcomes = worker_->put(fresh);
  EXPECT_TRUE(all_are(outcomes, Outcome::kStored))
      << (outcomes.empty() ? worker_->last_error().message
                           : std::string(to_string(outcomes.front())));
  expect_readable(fresh);
}

void World::expect_readable(std::span<const Key> keys) {
  const Got got = worker_->get(keys);
  EXPECT_EQ(got.pages, keys.size()) << to_string(got.reason);
  EXPECT_EQ(got.wrong, 0U);
}

}  // namespace orlop::negative_test
