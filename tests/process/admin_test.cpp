// SPDX-License-Identifier: Apache-2.0
// orlop inspect, flush, remove and drain against a real node with real clients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "daemon.h"
#include "orlop/client.h"
#include "ran_program.h"

namespace orlop::process_test {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint32_t kValueLen = 4'096;
constexpr Milliseconds kLong{20'000};

NamespaceDescriptor descriptor(std::uint32_t rank, const std::string& model = "m") {
  NamespaceDescriptor d;
  d.engine = "demo";
  d.layout = "demo-1";
  d.model = model;
  d.revision = "r1";
  d.dtype = "bf16";
  d.page_tokens = 16;
  d.value_len = kValueLen;
  d.tp_rank = rank;
  d.tp_size = 2;
  return d;
}

// A node with two ranks of one family (rows 0 and 1) and a stranger (row 2), and a client of it.
class AdminTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(daemon.wait_serving()) << daemon.log();
    ASSERT_TRUE(client.wait_ready(kLong)) << client.last_attach_error().message;
    rank0 = client.open_namespace(descriptor(0)).value();
    rank1 = client.open_namespace(descriptor(1)).value();
    other = client.open_namespace(descriptor(0, "other")).value();
  }

  Ran orlop(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--socket", daemon.socket()});
    return command.run(std::move(arguments));
  }
  Json json(std::vector<std::string> arguments, int status = 0) {
    arguments.push_back("--json");
    const Ran ran = orlop(std::move(arguments));
    EXPECT_EQ(ran.status, status) << ran.err << ran.out;
    EXPECT_EQ(ran.out.find('\033'), std::string::npos);
    const Json read = Json::parse(ran.out, nullptr, false);
    EXPECT_FALSE(read.is_discarded()) << ran.out;
    return read;
  }
  std::vector<Outcome> put(const Namespace& ns, const std::vector<std::string>& keys,
                           const PutOptions& options = {}) {
    const std::vector<std::byte> page(kValueLen, std::byte{7});
    const std::vector<Key> views(keys.begin(), keys.end());
    const std::vector<std::span<const std::byte>> buffers(keys.size(), page);
    return client.put(ns, views, buffers, options).value();
  }
  std::uint32_t prefix(const Namespace& ns, const std::vector<std::string>& keys) {
    const std::vector<Key> views(keys.begin(), keys.end());
    return client.exists(ns, views).value().prefix_len;
  }
  // Pages pinned until the plan goes.
  ReadPlan read(const Namespace& ns, const std::vector<std::string>& keys) {
    const std::vector<Key> views(keys.begin(), keys.end());
    auto handle = client.get_start(ns, views).value();
    return std::move(client.get_transfer(handle).value());
  }

  TemporaryFolder folder;
  Daemon daemon{folder.path()};
  CommandLine command;
  Client client{ClientOptions{.socket = daemon.socket(), .name = "engine"}};
  Namespace rank0, rank1, other;
};

const std::vector<std::string> kKeys = {"a", "b", "c"};

// ---- inspect ----

TEST_F(AdminTest, Namespaces_are_shown_with_their_descriptors) {
  put(rank0, kKeys);
  const Json all = json({"inspect", "namespaces"});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0]["row"], 0);
  EXPECT_EQ(all[0]["slots"], 3);
  EXPECT_EQ(all[1]["descriptor"]["tp_rank"], 1);
  EXPECT_EQ(all[0]["family_digest"], all[1]["family_digest"]);
  EXPECT_NE(all[0]["family_digest"], all[2]["family_digest"]);
  const Ran text = orlop({"inspect", "namespaces"});
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.out, HasSubstr(all[1]["digest"].get<std::string>()));
  EXPECT_THAT(text.out, HasSubstr("revision"));
  EXPECT_THAT(text.out, Not(HasSubstr("\033")));
}

TEST_F(AdminTest, Slots_are_counted_and_listed) {
  put(rank0, kKeys);
  put(other, {"x"});
  const Json sums = json({"inspect", "slots"});
  std::uint64_t committed = 0;
  for (const Json& one : sums["classes"]) committed += one["slots"]["committed"].get<int>();
  EXPECT_EQ(committed, 4u);
  EXPECT_EQ(sums["namespaces"].size(), 2u);
  EXPECT_EQ(json({"inspect", "slots", "--namespace", "0"}).size(), 3u);
  const Json list = json({"inspect", "slots", "--limit", "2"});
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0]["state"], "committed");
  // What the list names can be asked for.
  const std::string id = list[0]["id"];
  const Json key = json({"inspect", "key", "--namespace", "0", "--id", id});
  EXPECT_EQ(key["slot"], list[0]["slot"]);
}

TEST_F(AdminTest, Key_tells_group_writer_and_readers) {
  PutOptions options;
  options.atomic_group_lens = {1, 2};
  put(rank0, kKeys, options);
  const ReadPlan plan = read(rank0, kKeys);
  const std::string digest = json({"inspect", "namespaces"})[0]["digest"];
  const Json key = json({"inspect", "key", "--namespace", digest.substr(0, 8), "--text", "c"});
  EXPECT_TRUE(key["present"].get<bool>());
  EXPECT_EQ(key["group_index"], 1);
  EXPECT_EQ(key["member_count"], 2);
  EXPECT_EQ(key["writer"]["name"], "engine");
  EXPECT_TRUE(key["parent"]["present"].get<bool>());
  ASSERT_EQ(key["pinned_by"].size(), 1u);
  EXPECT_EQ(key["pinned_by"][0]["name"], "engine");
  EXPECT_EQ(json({"inspect", "key", "--namespace", "0", "--key", "63"})["slot"], key["slot"]);
  const Ran text = orlop({"inspect", "key", "--namespace", "0", "--text", "c"});
  EXPECT_THAT(text.out, HasSubstr("'engine'"));
}

TEST_F(AdminTest, Absent_key_ends_with_1_and_says_what_is_known) {
  put(rank1, {"a"});
  const Json absent = json({"inspect", "key", "--namespace", "0", "--text", "a"}, 1);
  EXPECT_FALSE(absent["present"].get<bool>());
  EXPECT_EQ(absent["also_in"], Json::array({1}));
  put(rank0, {"b"});
  json({"remove", "--namespace", "0", "--text", "b"});
  EXPECT_EQ(json({"inspect", "key", "--namespace", "0", "--text", "b"}, 1)["left"]["cause"],
            "removed");
}

// The namespace goes by another index since the flush.
TEST_F(AdminTest, Flushed_key_says_that_it_was_flushed) {
  put(rank0, {"a"});
  json({"flush", "--namespace", "0"});
  const Json flushed = json({"inspect", "key", "--namespace", "0", "--text", "a"}, 1);
  EXPECT_FALSE(flushed["present"].get<bool>());
  EXPECT_EQ(flushed["left"]["cause"], "flushed");
  EXPECT_THAT(orlop({"inspect", "key", "--namespace", "0", "--text", "a"}).out,
              HasSubstr("ago: flushed"));
}

TEST_F(AdminTest, Client_is_found_by_name_id_and_process) {
  put(rank0, kKeys);
  const ReadPlan plan = read(rank0, kKeys);
  const Json by_name = json({"inspect", "client", "engine"});
  EXPECT_EQ(by_name["held_pages"], 3);
  EXPECT_EQ(by_name["held_by_namespace"][0]["row"], 0);
  EXPECT_EQ(by_name["pid"], ::getpid());
  EXPECT_EQ(json({"inspect", "client", std::to_string(::getpid())})["client"], by_name["client"]);
  EXPECT_EQ(json({"inspect", "client", by_name["client"].dump()})["name"], "engine");
  EXPECT_THAT(orlop({"inspect", "client", "engine"}).out, HasSubstr("3 pages"));
}

TEST_F(AdminTest, What_does_not_exist_is_a_usage_error_in_words) {
  const struct {
    std::vector<std::string> arguments;
    const char* word;
  } cases[] = {
      {{"inspect", "key", "--namespace", "9", "--text", "a"}, "0 = "},
      {{"inspect", "key", "--namespace", "0", "--key", "6"}, "two digits"},
      {{"inspect", "key", "--namespace", "0", "--id", "12"}, "32 hex digits"},
      {{"inspect", "key", "--namespace", "0"}, "--text"},
      {{"inspect", "key", "--namespace", "0", "--text", "a", "--key", "61"}, "--key"},
      {{"inspect", "slots", "--limit", "0"}, "--limit"},
      {{"inspect", "client", "nobody"}, "nobody"},
      {{"inspect"}, "subcommand"},
      {{"flush"}, "--namespace"},
      {{"flush", "--all"}, "--yes"},
      {{"flush", "--family", "--all"}, "--namespace"},
      {{"flush", "--namespace", "zebra"}, "neither a row"},
      {{"remove", "--namespace", "0"}, "--keys-file"},
      {{"remove", "--namespace", "0", "--keys-file", "/nonexistent"}, "/nonexistent"},
      {{"drain", "--wait", "soon"}, "--wait"},
      {{"drain", "--wait", "90000"}, "24 hours"},
      {{"drain", "--wait", "1", "--undo"}, "--undo"},
      {{"completion", "tcsh"}, "tcsh"},
  };
  for (const auto& c : cases) {
    std::vector<std::string> arguments = c.arguments;
    if (arguments[0] != "completion" && arguments.size() > 1)
      arguments.insert(arguments.end(), {"--socket", daemon.socket()});
    const Ran ran = command.run(arguments);
    EXPECT_EQ(ran.status, 2) << ::testing::PrintToString(c.arguments) << ran.err << ran.out;
    EXPECT_THAT(ran.err + ran.out, HasSubstr(c.word));
  }
}

TEST_F(AdminTest, Hostile_questions_over_http_get_400_in_words_and_harm_nobody) {
  const std::string admin = daemon.status().admin;
  for (const char* path :
       {"/inspect/", "/inspect/%2e%2e", "/inspect/sums?from=-1", "/inspect/sums?from=999999",
        "/inspect/slots?after=99999999999", "/inspect/slots?limit=1000000", "/inspect/slots?row=77",
        "/inspect/key?row=0&id=zz", "/inspect/key", "/inspect/client?id=0",
        "/inspect/client?id=1&id=2", "/inspect/sums?%00=1"}) {
    const auto answer = http_get(admin, path);
    ASSERT_FALSE(answer.has_value()) << path;
    EXPECT_THAT(answer.error().message, HasSubstr("400")) << path;
  }
  EXPECT_EQ(put(rank0, {"a"}), std::vector{Outcome::kStored});
  EXPECT_EQ(daemon.status().restarts, 0u);
}

// ---- flush, remove ----

TEST_F(AdminTest, Flush_forgets_one_namespace_a_family_or_all) {
  for (const Namespace& ns : {rank0, rank1, other}) put(ns, kKeys);
  const Json one = json({"flush", "--namespace", "0"});
  EXPECT_EQ(one["pages"], 3);
  EXPECT_EQ(prefix(rank0, kKeys), 0u);
  EXPECT_EQ(prefix(rank1, kKeys), 3u);
  const Json family = json({"flush", "--namespace", "0", "--family"});
  ASSERT_EQ(family["flushed"].size(), 2u);
  EXPECT_EQ(prefix(rank1, kKeys), 0u);
  EXPECT_EQ(prefix(other, kKeys), 3u);
  const Ran all = orlop({"flush", "--all", "--yes"});
  EXPECT_EQ(all.status, 0) << all.err;
  EXPECT_THAT(all.out, HasSubstr("namespace 2 (demo, model other, rank 0/2): 3 pages are gone"));
  EXPECT_EQ(prefix(other, kKeys), 0u);
}

TEST_F(AdminTest, Remove_takes_keys_from_arguments_and_files) {
  put(rank0, {"a", "b", "c", "d", "e"});
  const Json two =
      json({"remove", "--namespace", "0", "--text", "a", "--key", "62", "--text", "a"});
  EXPECT_EQ(two["keys"], 2);
  EXPECT_EQ(two["removed"], 2);
  EXPECT_EQ(two["slots"], 2);
  const std::string path = folder.path() + "/keys";
  std::ofstream(path) << "# pages of a bad run\n63\ntext:d\ntext:nowhere\n";
  const Json some = json({"remove", "--namespace", "0", "--keys-file", path}, 1);
  EXPECT_EQ(some["removed"], 2);
  EXPECT_EQ(some["not_present"], 1);
  EXPECT_EQ(prefix(rank0, {"e"}), 1u);
  std::ofstream(path) << "65\nxy\n";
  const Ran wrong = orlop({"remove", "--namespace", "0", "--keys-file", path});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("line 2"));
  EXPECT_EQ(prefix(rank0, {"e"}), 1u);
}

TEST_F(AdminTest, Remove_says_that_groups_go_whole) {
  PutOptions options;
  options.atomic_group_lens = {3};
  put(rank0, kKeys, options);
  const Json removed = json({"remove", "--namespace", "0", "--text", "b"});
  EXPECT_EQ(removed["removed"], 1);
  EXPECT_EQ(removed["slots"], 3);
}

// More keys than one call takes: a group's first member is asked for in the first call, its last
// one in the second, when the first removal has taken the whole group along already.
TEST_F(AdminTest, Remove_counts_members_of_a_group_that_a_call_before_took_along) {
  PutOptions options;
  options.atomic_group_lens = {3};
  put(rank0, kKeys, options);
  const std::string path = folder.path() + "/keys";
  std::ofstream file(path);
  file << "text:" << kKeys.front() << "\n";
  for (int i = 0; i < 5'000; ++i) file << "text:nobody" << i << "\n";
  file << "text:" << kKeys.back() << "\n";
  file.close();
  const Json removed = json({"remove", "--namespace", "0", "--keys-file", path}, 1);
  EXPECT_EQ(removed["removed"], 2);
  EXPECT_EQ(removed["not_present"], 5'000);
  EXPECT_EQ(removed["slots"], 3);
}

// ---- drain ----

TEST_F(AdminTest, Drain_refuses_new_puts_and_survives_the_server) {
  put(rank0, {"a"});
  const Json begun = json({"drain"});
  EXPECT_TRUE(begun["draining"].get<bool>());
  EXPECT_TRUE(begun["quiet"].get<bool>());
  EXPECT_EQ(put(rank0, {"b"}), std::vector{Outcome::kNotAdmitted});
  EXPECT_EQ(prefix(rank0, {"a"}), 1u);
  EXPECT_EQ(json({"status"})["state"], "draining");
  EXPECT_EQ(daemon.metric("orlop_draining"), 1);
  EXPECT_THAT(http_get(daemon.status().admin, "/readyz").error().message, HasSubstr("503"));

  daemon.kill_server();
  ASSERT_TRUE(daemon.wait_serving(1)) << daemon.log();
  EXPECT_EQ(json({"status"})["state"], "draining");
  ASSERT_TRUE(eventually([&] { return client.ping().has_value(); }));
  EXPECT_EQ(put(rank0, {"b"}), std::vector{Outcome::kNotAdmitted});

  const Ran undone = orlop({"drain", "--undo"});
  EXPECT_EQ(undone.status, 0) << undone.err;
  EXPECT_THAT(undone.out, HasSubstr("not draining"));
  EXPECT_EQ(put(rank0, {"b"}), std::vector{Outcome::kStored});
  EXPECT_EQ(http_get(daemon.status().admin, "/readyz").value_or("no"), "ready\n");
}

TEST_F(AdminTest, Drain_waits_for_puts_and_reads_and_names_who_holds_them) {
  put(rank0, {"a"});
  const std::vector<Key> keys = {"b"};
  auto open = client.put_start(rank0, keys).value();
  ASSERT_EQ(open.outcome(0), Outcome::kPrepared);
  std::optional<ReadPlan> reads = read(rank0, {"a"});
  const Json busy = json({"drain", "--wait", "200ms"}, 1);
  EXPECT_EQ(busy["open_puts"], 1);
  EXPECT_EQ(busy["held_pages"], 1);
  ASSERT_EQ(busy["holders"].size(), 1u);
  EXPECT_EQ(busy["holders"][0]["name"], "engine");
  EXPECT_THAT(orlop({"drain", "--wait", "0"}).out, HasSubstr("'engine'"));

  // What was under way may commit, and the one who waits hears of it.
  const auto waiting = command.start({"drain", "--wait", "60", "--socket", daemon.socket()});
  const std::vector<std::byte> page(kValueLen, std::byte{1});
  ASSERT_TRUE(open.copy_in(0, page).has_value());
  const auto done = client.put_commit(open).value().wait(kLong);
  EXPECT_EQ(done, std::vector{Outcome::kStored});
  reads.reset();
  const Ran ended = waiting->wait(60 * kNsPerSecond);
  EXPECT_EQ(ended.status, 0) << ended.err << ended.out;
  EXPECT_THAT(ended.out, HasSubstr("nothing is being read"));
}

// ---- no node ----

TEST(AdminWithoutNode, Every_command_ends_with_3_and_the_remedy) {
  CommandLine command;
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"inspect", "namespaces"},
        {"inspect", "slots"},
        {"inspect", "key", "--namespace", "0", "--text", "a"},
        {"inspect", "client", "1"},
        {"flush", "--all", "--yes"},
        {"remove", "--namespace", "0", "--text", "a"},
        {"drain"},
        {"drain", "--undo", "--json"}}) {
    const Ran ran = command.run(arguments);
    EXPECT_EQ(ran.status, 3) << ::testing::PrintToString(arguments) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("orlop serve"));
    EXPECT_EQ(ran.out, "");
  }
}

}  // namespace
}  // namespace orlop::process_test
