// SPDX-License-Identifier: Apache-2.0
// `orlop doctor` against a real node and real clients, one situation after the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "client/drain.h"
#include "daemon.h"
#include "orlop/client.h"
#include "protocol/attach/frames.h"
#include "ran_program.h"
#include "raw_client.h"

namespace orlop::process_test {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

constexpr std::uint32_t kValueBytes = 64 * 1024;

NamespaceDescriptor descriptor(const std::string& dtype = "bf16") {
  NamespaceDescriptor d;
  d.engine = "vllm";
  d.layout = "vllm-0.32/NHD";
  d.model = "m";
  d.revision = "r";
  d.dtype = dtype;
  d.page_tokens = 16;
  d.value_len = kValueBytes;
  return d;
}

struct Engine {
  explicit Engine(const std::string& socket, ClientOptions options = {}) {
    options.socket = socket;
    options.call_budget = Milliseconds(5000);
    client.emplace(std::move(options));
    EXPECT_TRUE(client->wait_ready(Milliseconds(20'000))) << client->last_attach_error().message;
  }
  Namespace open(const NamespaceDescriptor& d) { return client->open_namespace(d).value(); }
  // Pages "<name><first>", ...; returns how many were stored.
  std::uint32_t put(const Namespace& ns, const std::string& name, int first, int count) {
    const std::vector<std::byte> page(kValueBytes, std::byte{7});
    const auto keys = texts(name, first, count);
    const std::vector<Key> views(keys.begin(), keys.end());
    const std::vector<std::span<const std::byte>> pages(keys.size(), page);
    std::uint32_t stored = 0;
    const auto outcomes = client->put(ns, views, pages);
    EXPECT_TRUE(outcomes) << outcomes.error().message;
    for (const Outcome outcome : outcomes.value_or(std::vector<Outcome>{})) {
      stored += outcome == Outcome::kStored ? 1 : 0;
    }
    return stored;
  }
  // One request for each page, as the node samples the first miss of a request.
  std::uint32_t ask(const Namespace& ns, const std::string& name, int first, int count) {
    std::vector<std::byte> page(kValueBytes);
    std::uint32_t hits = 0;
    for (const std::string& text : texts(name, first, count)) {
      const Key key = text;
      const std::span<std::byte> buffer = page;
      hits += client->get(ns, {&key, 1}, {&buffer, 1}).value();
    }
    return hits;
  }
  static std::vector<std::string> texts(const std::string& name, int first, int count) {
    std::vector<std::string> out;
    for (int i = 0; i < count; ++i) out.push_back(name + std::to_string(first + i));
    return out;
  }
  std::optional<Client> client;
};

class Doctor : public ::testing::Test {
 protected:
  void start(std::vector<std::string> extra = {}) {
    daemon_.emplace(folder_.path(), std::move(extra));
    ASSERT_TRUE(daemon_->wait_serving()) << daemon_->log();
  }
  Ran run(std::vector<std::string> arguments = {}) {
    arguments.insert(arguments.begin(), {"doctor", "--socket", daemon_->socket(), "--json"});
    return orlop_.run(std::move(arguments));
  }
  // The check of that name; null when there is none.
  static Json check_of(const Json& report, const std::string& name) {
    for (const Json& section : report["sections"]) {
      for (const Json& check : section["checks"]) {
        if (check["name"] == name) return check;
      }
    }
    return nullptr;
  }
  Json check(const std::string& name) { return check_of(Json::parse(run().out), name); }
  // What clients did reaches the node's status within a second; a doctor that comes earlier says
  // less, so ask again until the check says all.
  void expect_words(const std::string& name, const std::string& verdict, const std::string& words,
                    const std::string& remedy = "") {
    Json found;
    const bool said = eventually([&] {
      found = check(name);
      return !found.is_null() && found["verdict"] == verdict && found["remedy"] != "" &&
             found["finding"].get<std::string>().find(words) != std::string::npos &&
             found["remedy"].get<std::string>().find(remedy) != std::string::npos;
    });
    EXPECT_TRUE(said) << name << " does not say: " << words << "\n" << found.dump(1);
  }

  const TemporaryFolder folder_;
  std::optional<Daemon> daemon_;
  CommandLine orlop_;
};

TEST_F(Doctor, Without_a_node_ends_with_3_and_still_looks_at_the_machine) {
  const Ran ran = orlop_.run({"doctor", "--json"});
  EXPECT_EQ(ran.status, 3) << ran.err;
  const Json report = Json::parse(ran.out);
  EXPECT_EQ(check_of(report, "memory_files")["verdict"], "ok");
  EXPECT_EQ(check_of(report, "node")["verdict"], "fail");
  EXPECT_TRUE(check_of(report, "attach").is_null());
}

TEST_F(Doctor, A_healthy_node_passes_and_nothing_is_left_behind) {
  start();
  for (int i = 0; i < 2; ++i) {
    const Ran ran = run();
    EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
    const Json report = Json::parse(ran.out);
    for (const char* name :
         {"attach", "open_namespace", "ping", "put", "read_back", "remove", "detach"}) {
      EXPECT_EQ(check_of(report, name)["verdict"], "ok") << name << report;
    }
    EXPECT_EQ(check_of(report, "attached")["verdict"], "warn");
    EXPECT_TRUE(check_of(report, "hit_rate").is_null()) << "its own page is not traffic";
  }
  EXPECT_TRUE(eventually([&] {
    const auto metrics = daemon_->metrics();
    return metrics.at("orlop_clients_known") == 0 && metrics.at("orlop_readable_bytes") == 0 &&
           metrics.at("orlop_slots{state=\"free\"}") == metrics.at("orlop_slots_assigned");
  })) << ::testing::PrintToString(daemon_->metrics());
}

TEST_F(Doctor, The_text_for_people_has_verdicts_and_what_to_do) {
  start();
  const Ran ran = orlop_.run({"doctor", "--socket", daemon_->socket()});
  EXPECT_EQ(ran.status, 0) << ran.out;
  for (const char* part :
       {"environment\n", "node\n", "round trip\n", "traffic\n", "  ok    read_back",
        "  warn  attached", "-> start the engine", "0 failed"}) {
    EXPECT_THAT(ran.out, HasSubstr(part));
  }
  EXPECT_EQ(ran.out.find('\033'), std::string::npos) << "colour without a terminal";
}

TEST_F(Doctor, A_bad_descriptor_is_usage_and_an_unknown_one_names_the_fields) {
  start();
  Engine engine(daemon_->socket());
  engine.open(descriptor("fp8"));
  const Ran bad = run({"--descriptor", R"({"engin": "vllm"})"});
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.err, HasSubstr("engine"));
  for (const std::string dtype : {"bf16", "fp8"}) {
    const Ran ran = run({"--descriptor", canonical_text(descriptor(dtype)).value()});
    const Json found = check_of(Json::parse(ran.out), "descriptor");
    EXPECT_THAT(found["finding"].get<std::string>(),
                HasSubstr(dtype == "fp8" ? "the node knows it as namespace"
                                         : "They differ in dtype \"bf16\" vs \"fp8\""));
  }
}

TEST_F(Doctor, Attached_but_never_asked) {
  start();
  Engine engine(daemon_->socket());
  expect_words("asked", "warn", "1 client is attached and never asked for a key nor wrote one");
  EXPECT_EQ(engine.put(engine.open(descriptor()), "a", 0, 4), 4u);
  expect_words("asked", "warn", "clients wrote 4 keys and never asked for one");
}

TEST_F(Doctor, Asked_in_another_dtype) {
  start();
  Engine writer(daemon_->socket()), reader(daemon_->socket());
  EXPECT_EQ(writer.put(writer.open(descriptor("fp8")), "a", 0, 8), 8u);
  EXPECT_EQ(reader.ask(reader.open(descriptor("bf16")), "a", 0, 8), 0u);
  expect_words("namespace", "fail", "They differ in dtype \"bf16\" vs \"fp8\"");
  EXPECT_EQ(run().status, 1);
}

TEST_F(Doctor, Asked_on_another_rank) {
  start();
  NamespaceDescriptor first = descriptor(), second = descriptor();
  first.tp_size = second.tp_size = 2;
  second.tp_rank = 1;
  Engine writer(daemon_->socket()), reader(daemon_->socket());
  EXPECT_EQ(writer.put(writer.open(first), "a", 0, 8), 8u);
  EXPECT_EQ(reader.ask(reader.open(second), "a", 0, 8), 0u);
  expect_words("namespace", "fail", "8 of them for keys that are in another namespace");
  expect_words("namespace", "fail", "They differ in tp_rank {1} vs {0}");
}

TEST_F(Doctor, Evicted_before_use) {
  start();  // 64 MiB: 1,024 pages
  Engine engine(daemon_->socket());
  const Namespace ns = engine.open(descriptor());
  for (int first = 0; first < 3000; first += 100) engine.put(ns, "a", first, 100);
  EXPECT_EQ(engine.ask(ns, "a", 0, 20), 0u);
  expect_words("evicted", "warn", "of 20 misses were for pages that had been evicted",
               "would have kept all");
}

TEST_F(Doctor, Other_keys_in_the_same_namespace) {
  start();
  Engine engine(daemon_->socket());
  const Namespace ns = engine.open(descriptor());
  engine.put(ns, "seed-1-", 0, 16);
  EXPECT_EQ(engine.ask(ns, "seed-2-", 0, 16), 0u);
  expect_words("never_written", "warn",
               "16 keys were stored (16 pages are there), and 16 misses were for keys that were "
               "never written there",
               "PYTHONHASHSEED");
}

TEST_F(Doctor, No_writer) {
  start();
  Engine engine(daemon_->socket());
  EXPECT_EQ(engine.ask(engine.open(descriptor()), "a", 0, 5), 0u);
  expect_words("never_written", "warn", "nobody wrote any key");
}

TEST_F(Doctor, Removed_and_flushed) {
  start();
  Engine engine(daemon_->socket());
  const Namespace ns = engine.open(descriptor());
  engine.put(ns, "a", 0, 8);
  for (const std::string& text : Engine::texts("a", 0, 8)) {
    const Key key = text;
    EXPECT_EQ(engine.client->remove(ns, {&key, 1}).value(), 1u);
  }
  EXPECT_EQ(engine.ask(ns, "a", 0, 8), 0u);
  expect_words("removed", "warn", "8 of 8 misses were for pages that somebody had removed");
  engine.put(ns, "b", 0, 8);
  ASSERT_TRUE(engine.client->flush(ns));
  EXPECT_EQ(engine.ask(ns, "b", 0, 8), 0u);
  expect_words("flushed", "warn", "8 of 16 misses were for pages that a flush had dropped");
}

TEST_F(Doctor, Puts_over_their_share_and_without_space) {
  start();
  Engine engine(daemon_->socket());
  const Namespace ns = engine.open(descriptor());
  // A quarter of 1,024 pages may be reserved by one client.
  const auto names = Engine::texts("a", 0, 400);
  const std::vector<Key> keys(names.begin(), names.end());
  const auto plan = engine.client->put_start(ns, keys);
  ASSERT_TRUE(plan);
  expect_words("over_quota", "warn", "not stored (over_quota): their client had reserved");
}

TEST_F(Doctor, No_space_while_puts_hold_everything) {
  start({"--max-prepared", "64MiB"});
  Engine engine(daemon_->socket());
  const Namespace ns = engine.open(descriptor());
  const auto names = Engine::texts("a", 0, 1024);
  const std::vector<Key> keys(names.begin(), names.end());
  const auto plan = engine.client->put_start(ns, keys);
  ASSERT_TRUE(plan);
  EXPECT_EQ(engine.put(ns, "b", 0, 4), 0u);
  expect_words("no_space", "warn", "not stored (no_space): nothing could leave in time");
}

TEST_F(Doctor, A_draining_node_is_told_and_is_no_failure) {
  start();
  Engine engine(daemon_->socket());
  ASSERT_TRUE(detail::drain_node(*engine.client, protocol::DrainMode::kBegin));
  EXPECT_EQ(engine.put(engine.open(descriptor()), "a", 0, 4), 0u);
  expect_words("draining", "warn", "the node drains: it takes no new puts");
  expect_words("not_admitted", "warn", "not stored (not_admitted)");
  expect_words("put", "warn", "not stored: not_admitted");
  EXPECT_EQ(run().status, 0);
}

TEST_F(Doctor, Reads_beyond_the_pin_budget) {
  start({"--max-pinned", "1MiB"});
  Engine engine(daemon_->socket());
  const Namespace ns = engine.open(descriptor());
  engine.put(ns, "a", 0, 64);
  const auto names = Engine::texts("a", 0, 64);
  const std::vector<Key> keys(names.begin(), names.end());
  auto handle = engine.client->get_start(ns, keys);
  ASSERT_TRUE(handle);
  EXPECT_EQ(handle->result().reason, MissReason::kPinBudget);
  expect_words("pin_budget", "warn", "cut short (pin_budget): the client pinned what it may");
}

TEST_F(Doctor, Wrong_bytes_fail) {
  start();
  Engine engine(daemon_->socket());
  const Namespace ns = engine.open(descriptor());
  const Key key = "a0";
  auto plan = engine.client->put_start(ns, {&key, 1});
  ASSERT_TRUE(plan);
  const std::span<std::byte> memory = plan->memory(0);
  ASSERT_TRUE(engine.client->put_commit(*plan)->wait(Milliseconds(10'000)));
  memory[5] = std::byte{99};  // what no writer may do
  EXPECT_EQ(engine.ask(ns, "a", 0, 1), 0u);
  expect_words("mismatch", "fail", "1 value did not match their checksum");
  EXPECT_EQ(run().status, 1);
}

TEST_F(Doctor, Other_versions_are_refused_loudly) {
  start();
  protocol::AttachFrame frame;
  frame.nonce = 5;
  frame.name = "old";
  protocol::Bytes bytes = protocol::encode(frame);
  bytes[8] = std::byte{77};  // the version has its place in every version
  const auto socket = connect_to(daemon_->socket());
  ASSERT_TRUE(socket);
  const Pipe pipe = make_pipe().value();
  const int descriptors[] = {pipe.read_end.get()};
  ASSERT_TRUE(ask_node(socket->get(), bytes, descriptors));
  expect_words("refused_attach", "fail",
               "1 attach was refused (abi_mismatch): client and node are of different versions");
}

TEST_F(Doctor, A_server_that_ended_a_moment_ago_is_told) {
  start();
  daemon_->kill_server();
  ASSERT_TRUE(daemon_->wait_serving(1)) << daemon_->log();
  expect_words("restarts", "warn", "the server ended 1 time, last: signal 9");
}

}  // namespace
}  // namespace orlop::process_test
