// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/doctor_namespaces.h"

namespace orlop::cli {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

NodeLook running() {
  NodeLook look;
  look.file.emplace();
  look.keeper_visible = true;
  look.status = Json::parse(R"({
    "version": "0.1.0", "abi": 3, "state": "ready", "keeper_pid": 42, "uptime_seconds": 7200.0,
    "server_uptime_seconds": 7200.0, "restarts": 0, "last_end": "", "waiting_puts": 0,
    "memory": {"value_bytes": 1073741824, "readable_bytes": 536870912, "prepared_bytes": 0}})");
  return look;
}
Check check_of(const NodeLook& look, const std::string& name) {
  for (Check& check : judge_node(look, "0.1.0", 3)) {
    if (check.name == name) return check;
  }
  ADD_FAILURE() << "no check " << name;
  return {};
}

TEST(JudgeNode, A_good_node_is_ok) {
  const auto checks = judge_node(running(), "0.1.0", 3);
  ASSERT_EQ(checks.size(), 4u);
  for (const Check& check : checks) EXPECT_EQ(check.verdict, Verdict::kOk) << check.finding;
  EXPECT_EQ(checks[0].finding, "ready; keeper pid 42, up 2 h 00 m");
  EXPECT_EQ(checks[3].finding,
            "1.00 GiB: 512 MiB readable (50.0 %), 0 B being written, 0 puts wait for space");
}

TEST(JudgeNode, No_node_fails_and_says_how_to_start_one) {
  NodeLook look;
  look.why = "no node runs at /run/o.sock";
  const auto checks = judge_node(look, "0.1.0", 3);
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].verdict, Verdict::kFailure);
  EXPECT_EQ(checks[0].finding, "no node runs at /run/o.sock");
  EXPECT_THAT(checks[0].remedy, HasSubstr("orlop serve"));
  look.file.emplace();
  look.file->admin = "off";
  EXPECT_THAT(check_of(look, "node").remedy, HasSubstr("--admin"));
}

TEST(JudgeNode, Draining_stopping_and_a_hidden_keeper_are_warnings) {
  NodeLook look = running();
  look.status["draining"] = true;
  EXPECT_EQ(check_of(look, "node").verdict, Verdict::kWarning);
  EXPECT_THAT(check_of(look, "node").remedy, HasSubstr("orlop drain"));
  look = running();
  look.status["state"] = "stopping";
  EXPECT_EQ(check_of(look, "node").verdict, Verdict::kWarning);
  look = running();
  look.keeper_visible = false;
  EXPECT_THAT(check_of(look, "node").finding, HasSubstr("not to be seen from here"));
}

TEST(JudgeNode, Another_abi_fails_another_version_warns) {
  NodeLook look = running();
  look.status["abi"] = 2;
  EXPECT_EQ(check_of(look, "versions").verdict, Verdict::kFailure);
  EXPECT_EQ(check_of(look, "versions").finding, "node 0.1.0 (ABI 2), this program 0.1.0 (ABI 3)");
  look = running();
  look.status["version"] = "0.2.0";
  EXPECT_EQ(check_of(look, "versions").verdict, Verdict::kWarning);
}

TEST(JudgeNode, What_a_node_does_not_tell_is_not_taken_for_0) {
  NodeLook look = running();
  look.status = Json::parse(R"({"version": "0.1.0", "state": "ready"})");
  EXPECT_EQ(check_of(look, "versions").verdict, Verdict::kWarning);
  EXPECT_EQ(check_of(look, "versions").finding, "node 0.1.0 (ABI -), this program 0.1.0 (ABI 3)");
  EXPECT_EQ(check_of(look, "versions").figures["node_abi"], nullptr);
  EXPECT_THAT(check_of(look, "restarts").finding, HasSubstr("does not tell"));
  EXPECT_EQ(check_of(look, "capacity").finding,
            "-: - readable (-), - being written, - puts wait for space");
  EXPECT_EQ(check_of(look, "node").finding, "ready; keeper pid -, up -");
}

TEST(JudgeNode, A_fresh_restart_is_a_warning_an_old_one_is_not) {
  NodeLook look = running();
  look.status["restarts"] = 3;
  look.status["last_end"] = "signal 9 (SIGKILL)";
  look.status["server_uptime_seconds"] = 12.0;
  EXPECT_EQ(check_of(look, "restarts").verdict, Verdict::kWarning);
  EXPECT_EQ(check_of(look, "restarts").finding,
            "the server ended 3 times, last: signal 9 (SIGKILL), 12.0 s ago");
  look.status["server_uptime_seconds"] = 3600.0;
  EXPECT_EQ(check_of(look, "restarts").verdict, Verdict::kOk);
}

TEST(JudgeDescriptor, Known_unknown_and_none) {
  Json status;
  const Json known = {{"engine", "vllm"}, {"model", "m"}, {"dtype", "bf16"}, {"tp_rank", 0}};
  Json asked = known;
  EXPECT_EQ(judge_descriptor(status, asked).finding, "the node has no namespace yet");
  status["namespaces"] = {{{"row", 4}, {"descriptor", known}}};
  EXPECT_EQ(judge_descriptor(status, asked).finding,
            "the node knows it as namespace 4 (vllm, model m)");
  asked["dtype"] = "fp8";
  asked["tp_rank"] = 1;
  const Check check = judge_descriptor(status, asked);
  EXPECT_EQ(check.verdict, Verdict::kWarning);
  EXPECT_EQ(check.finding,
            "the node does not know this namespace; nearest is namespace 4 (vllm, model m). They "
            "differ in dtype \"fp8\" vs \"bf16\"; tp_rank {1} vs {0}");
}

TEST(WithoutDoctor, Its_namespace_and_its_page_are_taken_out) {
  const Json status = Json::parse(R"({
    "traffic": {"gets": 3, "keys_asked": 12, "keys_hit": 2, "puts": 2, "keys_put": 2,
                "keys_stored": 2},
    "counters": {"keys_offered": 2, "clients_attached": 3, "removed_slots": 2},
    "namespaces": [
      {"row": 0, "descriptor": {"engine": "orlop-doctor"}, "keys_stored": 2, "touches": 0},
      {"row": 1, "descriptor": {"engine": "vllm"}, "keys_stored": 0, "touches": 0}]})");
  const Json left = without_doctor(status);
  EXPECT_EQ(left["traffic"]["gets"], 1);
  EXPECT_EQ(left["traffic"]["keys_asked"], 10);
  EXPECT_EQ(left["traffic"]["keys_hit"], 0);
  EXPECT_EQ(left["traffic"]["keys_put"], 0);
  EXPECT_EQ(left["counters"]["clients_attached"], 1);
  ASSERT_EQ(left["namespaces"].size(), 1u);
  EXPECT_EQ(left["namespaces"][0]["row"], 1);
  EXPECT_EQ(without_doctor(Json::object()), Json::object());
}

}  // namespace
}  // namespace orlop::cli
