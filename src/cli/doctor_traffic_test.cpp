// SPDX-License-Identifier: Apache-2.0
// One status a cause, with the exact words that a user reads.
#include "cli/doctor_traffic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orlop::cli {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What every healthy node tells; tests change one thing.
Json healthy() {
  return Json::parse(R"({
    "version": "0.1.0", "attached": 2, "server_uptime_seconds": 100.0,
    "memory": {"value_bytes": 268435456, "readable_bytes": 67108864, "prepared_bytes": 0,
               "pin_cap_bytes": 67108864},
    "clients": [], "namespaces": [],
    "traffic": {"gets": 10, "keys_asked": 1000, "keys_hit": 900, "puts": 2, "keys_put": 100,
                "keys_stored": 100, "misses": {"not_found": 10}, "missed": {"never_written": 10},
                "mismatches": 0},
    "counters": {"clients_attached": 2, "commit_bytes": 67108864, "keys_offered": 100}})");
}
Json without_hits(const char* missed) {
  Json status = healthy();
  status["traffic"]["keys_hit"] = 0;
  status["traffic"]["missed"] = Json::parse(missed);
  return status;
}
Json descriptor(const char* dtype, unsigned tp_rank, unsigned tp_size) {
  return {{"engine", "vllm"},   {"layout", "vllm-0.32/NHD"},
          {"model", "m"},       {"revision", "r"},
          {"dtype", dtype},     {"component", "kv"},
          {"codec", "none"},    {"page_tokens", 16},
          {"value_len", 65536}, {"tp_rank", tp_rank},
          {"tp_size", tp_size}, {"pp_rank", 0},
          {"pp_size", 1},       {"cp_rank", 0},
          {"cp_size", 1},       {"first_layer", 0},
          {"layers", 32},       {"first_head", 0},
          {"heads", 8}};
}
Json written(unsigned row, Json described) {
  return {{"row", row},
          {"slots", 512},
          {"descriptor", std::move(described)},
          {"keys_offered", 512},
          {"keys_stored", 512},
          {"touches", 0},
          {"readable_bytes", 33554432},
          {"missed", Json::object()}};
}
Json asked(unsigned row, Json described, const char* missed) {
  return {{"row", row},
          {"slots", 0},
          {"descriptor", std::move(described)},
          {"keys_offered", 0},
          {"keys_stored", 0},
          {"touches", 0},
          {"readable_bytes", 0},
          {"missed", Json::parse(missed)}};
}

std::vector<std::string> names(const std::vector<Check>& checks) {
  std::vector<std::string> out;
  for (const Check& check : checks) out.push_back(check.name);
  return out;
}
Check check_of(const Json& status, const std::string& name) {
  for (Check& check : diagnose(status)) {
    if (check.name == name) return check;
  }
  ADD_FAILURE() << "no check " << name << " among "
                << ::testing::PrintToString(names(diagnose(status)));
  return {};
}
void expect_check(const Json& status, const std::string& name, Verdict verdict,
                  const std::string& finding, const std::string& remedy_begins) {
  const Check check = check_of(status, name);
  EXPECT_EQ(check.finding, finding);
  EXPECT_STREQ(to_string(check.verdict), to_string(verdict));
  EXPECT_EQ(check.remedy.substr(0, remedy_begins.size()), remedy_begins);
  EXPECT_FALSE(remedy_begins.empty()) << "say in the test what to do";
}

TEST(Diagnose, Healthy_traffic_is_ok) {
  const auto checks = diagnose(healthy());
  EXPECT_THAT(names(checks), ElementsAre("attached", "hit_rate", "never_written"));
  for (const Check& check : checks) EXPECT_EQ(check.verdict, Verdict::kOk) << check.finding;
  EXPECT_EQ(checks[0].finding, "2 clients are attached");
  EXPECT_EQ(checks[1].finding, "90.0 %: 900 of 1,000 keys asked were hits, in 10 plans");
}

TEST(Diagnose, Nobody_attached) {
  Json status = healthy();
  status["attached"] = 0;
  status["traffic"] = {{"gets", 0}, {"keys_asked", 0}, {"keys_hit", 0}, {"keys_put", 0}};
  EXPECT_THAT(names(diagnose(status)), ElementsAre("attached"));
  expect_check(status, "attached", Verdict::kWarning,
               "no client is attached (2 attached since the server's start)",
               "start the engine with its Orlop connector on");
}

TEST(Diagnose, Refused_versions_and_users) {
  Json status = healthy();
  status["counters"]["refused"] = {{"abi_mismatch", 3}};
  expect_check(status, "refused_attach", Verdict::kFailure,
               "3 attaches were refused (abi_mismatch): client and node are of different versions",
               "install the same version of Orlop");
  status["counters"]["refused"] = {{"refused", 1}};
  expect_check(status, "refused_attach", Verdict::kFailure,
               "1 attach was refused (refused): another user, or a process whose death could not "
               "be proved",
               "run the engine as the node's user");
  status["counters"]["refused"] = {{"namespace_conflict", 2}};
  expect_check(status, "refused_attach", Verdict::kFailure,
               "2 attaches were refused (namespace_conflict): a namespace's descriptor is not "
               "understood",
               "use the same version of the engine's connector");
  status["counters"]["refused"] = {{"deadline", 1}};
  expect_check(status, "refused_attach", Verdict::kWarning,
               "1 attach was refused (deadline): see the node's log line event=refused",
               "the log line names");
}

TEST(Diagnose, Attached_but_never_asked) {
  Json status = healthy();
  status["traffic"] = {{"gets", 0}, {"keys_asked", 0}, {"keys_hit", 0}, {"keys_put", 0}};
  expect_check(status, "asked", Verdict::kWarning,
               "2 clients are attached and never asked for a key nor wrote one",
               "send the engine a request");
  status["traffic"]["keys_put"] = 4000;
  expect_check(status, "asked", Verdict::kWarning,
               "clients wrote 4,000 keys and never asked for one",
               "the engine stores but does not look up");
}

TEST(Diagnose, Traffic_that_a_node_does_not_tell_is_unknown) {
  Json status = healthy();
  status.erase("traffic");
  expect_check(status, "hit_rate", Verdict::kWarning,
               "unknown: this node (version 0.1.0) does not tell what its clients ask",
               "start a node of this program's version");
}

TEST(Diagnose, Other_dtype_names_the_field) {
  Json status = without_hits(R"({"never_written": 120})");
  status["namespaces"] = {written(0, descriptor("fp8", 0, 1)),
                          asked(1, descriptor("bf16", 0, 1), R"({"never_written": 120})")};
  expect_check(status, "namespace", Verdict::kFailure,
               "asked in namespace 1 (vllm, model m): 120 misses, nothing was ever written there; "
               "written in namespace 0 (vllm, model m): 512 pages. They differ in dtype \"bf16\" "
               "vs \"fp8\"",
               "values are shared only when every field agrees");
}

TEST(Diagnose, Other_ranks_are_named_as_sets) {
  Json status = without_hits(R"({"other_namespace": 40, "never_written": 20})");
  status["namespaces"] = {
      written(0, descriptor("bf16", 0, 2)), written(1, descriptor("bf16", 1, 2)),
      asked(2, descriptor("bf16", 0, 4), R"({"other_namespace": 20})"),
      asked(3, descriptor("bf16", 3, 4), R"({"other_namespace": 20, "never_written": 20})")};
  expect_check(status, "namespace", Verdict::kFailure,
               "asked in namespaces 2, 3 (vllm, model m): 60 misses, 40 of them for keys that are "
               "in another namespace; written in namespaces 0, 1 (vllm, model m): 1,024 pages. "
               "They differ in tp_rank {0, 3} vs {0, 1}; tp_size {4} vs {2}",
               "values are shared only when every field agrees");
}

TEST(Diagnose, Evicted_before_use_suggests_a_capacity) {
  Json status = without_hits(R"({"evicted": 90, "never_written": 10})");
  status["counters"]["slots_evicted"] = 4096;
  status["counters"]["bytes_evicted"] = 268435456;
  status["counters"]["commit_bytes"] = 671088640;
  expect_check(status, "evicted", Verdict::kWarning,
               "90 of 100 misses were for pages that had been evicted before they were asked for; "
               "4,096 pages (256 MiB) were evicted, a page stays about 10.0 s; the value area is "
               "256 MiB",
               "raise --capacity: 512 MiB would have kept all that was written since the server's "
               "start");
  EXPECT_EQ(check_of(status, "evicted").figures["suggested_capacity_bytes"], 536870912);
}

TEST(Diagnose, No_writer_at_all) {
  Json status = without_hits(R"({"never_written": 50})");
  status["traffic"]["keys_put"] = 0;
  status["counters"]["keys_offered"] = 0;
  status["memory"]["readable_bytes"] = 0;
  expect_check(status, "never_written", Verdict::kWarning,
               "50 of 50 misses were for keys that were never written: nobody wrote any key",
               "the writer is missing");
}

TEST(Diagnose, Same_namespace_other_keys_points_at_seeds_and_salts) {
  Json status = without_hits(R"({"never_written": 480})");
  Json both = written(0, descriptor("bf16", 0, 1));
  both["missed"] = {{"never_written", 480}};
  status["namespaces"] = Json::array({both});
  EXPECT_THAT(names(diagnose(status)), ElementsAre("attached", "hit_rate", "never_written"));
  expect_check(status, "never_written", Verdict::kWarning,
               "in namespace 0 (vllm, model m) 512 keys were stored (512 pages are there), and 480 "
               "misses were for keys that were never written there",
               "unless these prompts are really new, reader and writer make different keys for the "
               "same tokens: set PYTHONHASHSEED");
}

TEST(Diagnose, Removed_and_flushed) {
  Json status = without_hits(R"({"removed": 30, "flushed": 70})");
  status["counters"]["removed_slots"] = 31;
  status["counters"]["flushed_slots"] = 72;
  status["counters"]["flushes"] = 2;
  expect_check(status, "removed", Verdict::kWarning,
               "30 of 100 misses were for pages that somebody had removed; 31 pages were removed "
               "since the server's start",
               "find out who calls remove");
  expect_check(status, "flushed", Verdict::kWarning,
               "70 of 100 misses were for pages that a flush had dropped; 2 flushes dropped 72 "
               "pages since the server's start",
               "a flush belongs to a change of weights");
}

TEST(Diagnose, Refused_puts) {
  Json status = healthy();
  status["counters"]["outcomes"] = {{"no_space", 5}, {"over_quota", 6}, {"not_admitted", 1}};
  status["clients"] = {{{"client", 1}, {"pinned_bytes", 134217728}}};
  status["draining"] = true;
  expect_check(status, "no_space", Verdict::kWarning,
               "5 keys not stored (no_space): nothing could leave in time; of 256 MiB now 128 MiB "
               "pinned by read plans and 0 B reserved by open puts",
               "`orlop top` shows which client pins");
  expect_check(status, "over_quota", Verdict::kWarning,
               "6 keys not stored (over_quota): their client had reserved its share "
               "(client.max_prepared) already",
               "put smaller batches");
  expect_check(status, "not_admitted", Verdict::kWarning,
               "1 key not stored (not_admitted): the node did not admit them",
               "a draining node admits nothing");
  expect_check(status, "draining", Verdict::kWarning,
               "the node drains: it takes no new puts, reads go on", "`orlop drain --undo`");
}

TEST(Diagnose, Reads_cut_short) {
  Json status = healthy();
  status["traffic"]["misses"] = {{"ledger_full", 1},
                                 {"pin_budget", 2},
                                 {"not_attached", 3},
                                 {"group_incomplete", 4},
                                 {"deadline", 5}};
  expect_check(status, "ledger_full", Verdict::kWarning,
               "1 plan cut short (ledger_full): the client's pin ledger had no free cell",
               "release read plans sooner");
  expect_check(status, "pin_budget", Verdict::kWarning,
               "2 plans cut short (pin_budget): the client pinned what it may, 64.0 MiB a client "
               "now",
               "release read plans sooner, or raise --max-pinned");
  expect_check(status, "not_attached", Verdict::kWarning,
               "3 plans cut short (not_attached): the client had no node yet, or had lost its "
               "memory",
               "start the node before the engine");
  expect_check(status, "group_incomplete", Verdict::kWarning,
               "4 plans cut short (group_incomplete): a member of the reader's group was missing",
               "readers' groups");
  expect_check(status, "deadline", Verdict::kWarning,
               "5 plans cut short (deadline): the caller's time was over", "a longer call budget");
}

TEST(Diagnose, Mismatches_fail) {
  Json status = healthy();
  status["traffic"]["mismatches"] = 4;
  status["counters"]["mismatches_confirmed"] = 3;
  status["counters"]["false_mismatches"] = 1;
  expect_check(status, "mismatch", Verdict::kFailure,
               "4 values did not match their checksum; the node found 3 of them wrong too "
               "(dropped) and 1 right",
               "memory, or a writer");
  status["counters"]["mismatches_confirmed"] = 0;
  EXPECT_EQ(check_of(status, "mismatch").remedy,
            "those clients see other bytes than the node: a wrong buffer, link or build there");
}

TEST(Diagnose, Plans_that_stay_open_name_their_client) {
  Json status = healthy();
  const Json client = {{"client", 7},
                       {"name", "w\n"},
                       {"pid", 42},
                       {"pinned_bytes", 1048576},
                       {"prepared_bytes", 65536}};
  const auto with = [&](const char* field, Json value) {
    Json changed = client;
    changed[field] = std::move(value);
    status["clients"] = Json::array({changed});
    return status;
  };
  expect_check(with("oldest_read_plan_seconds", 125.0), "pins", Verdict::kWarning,
               "client 7 (w?, pid 42) has a read plan open for 2 m 05 s, 1.00 MiB pinned",
               "release_views is missing");
  expect_check(with("oldest_put_seconds", 125.0), "pins", Verdict::kWarning,
               "client 7 (w?, pid 42) has a put open for 2 m 05 s, 64.0 KiB reserved",
               "put_commit or put_abort is missing");
  expect_check(with("state", "held_by_fork"), "pins", Verdict::kWarning,
               "client 7 (w?, pid 42) has died, and a process that it forked lives on: 64.0 KiB "
               "reserved by its puts stay until that ends (held_by_fork)",
               "end the forked process");
  expect_check(with("over_pin_budget", true), "pins", Verdict::kWarning,
               "client 7 (w?, pid 42) pins more than its budget: 1.00 MiB",
               "it gets no new read plans");
  EXPECT_THAT(names(diagnose(with("oldest_put_seconds", 59.0))),
              ElementsAre("attached", "hit_rate", "never_written"));
}

TEST(Diagnose, Anything_may_be_missing_or_of_another_type) {
  for (const char* json :
       {"{}", R"({"traffic": 3, "clients": {"a": 1}, "namespaces": "x", "counters": []})",
        R"({"attached": 1, "traffic": {"keys_asked": 5}, "namespaces": [1, {}, {"missed": 3}]})",
        R"({"traffic": {"keys_asked": 5, "missed": {"never_written": "a"}},
            "namespaces": [{"descriptor": "no json", "missed": {"other_namespace": 2}}]})"}) {
    const auto checks = diagnose(Json::parse(json));
    ASSERT_FALSE(checks.empty()) << json;
    for (const Check& check : checks) EXPECT_NE(check.finding, "") << json;
  }
}

}  // namespace
}  // namespace orlop::cli
