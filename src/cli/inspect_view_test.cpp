// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/inspect_sums.h"

namespace orlop::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::ordered_json;

const Painter kPlain(false);

// As it comes from a node: numbers of a literal are signed, those that were read are not.
Json as_read(const Json& json) {
  return Json::parse(json.dump());
}

std::vector<NamedNamespace> one_namespace() {
  NamedNamespace ns;
  ns.row = NamespaceRow{3};
  ns.descriptor.engine = "vllm";
  ns.descriptor.model = "m\x1b[2J";
  ns.digest = std::string(32, 'a');
  ns.family_digest = std::string(32, 'b');
  ns.facts = {{"row", 3},
              {"index", 9},
              {"value_len", 5'000},
              {"slots", 10},
              {"descriptor", {{"engine", "vllm"}, {"model", "m\x1b[2J"}, {"tp_rank", 2}}}};
  return {ns};
}

TEST(InspectSums, Parts_add_up_by_class_and_row) {
  Json sums;
  add_sums(sums,
           as_read({{"classes",
                     {{{"slot_bytes", 4096},
                       {"slabs", 2},
                       {"longest_free_run", 7},
                       {"slots", {{"free", 1}, {"committed", 5}}}}}},
                    {"namespaces",
                     {{{"row", 0}, {"slot_bytes", 20}}, {{"row", nullptr}, {"slot_bytes", 1}}}},
                    {"common_slabs", 1},
                    {"next", 4}}));
  EXPECT_EQ(sums["next"], 4);
  add_sums(sums, as_read({{"classes",
                           {{{"slot_bytes", 8192}, {"slabs", 1}},
                            {{"slot_bytes", 4096},
                             {"slabs", 3},
                             {"longest_free_run", 5},
                             {"slots", {{"free", 10}, {"committed", 50}}}}}},
                          {"namespaces", {{{"row", nullptr}, {"slot_bytes", 2}}}},
                          {"common_slabs", 2},
                          {"next", nullptr}}));
  ASSERT_EQ(sums["classes"].size(), 2u);
  EXPECT_EQ(sums["classes"][0]["slot_bytes"], 4096);
  EXPECT_EQ(sums["classes"][0]["slabs"], 5);
  EXPECT_EQ(sums["classes"][0]["longest_free_run"], 7);
  EXPECT_EQ(sums["classes"][0]["slots"]["committed"], 55);
  EXPECT_EQ(sums["namespaces"][0]["slot_bytes"], 20);
  EXPECT_EQ(sums["namespaces"][1]["slot_bytes"], 3);
  EXPECT_EQ(sums["common_slabs"], 3);
  EXPECT_TRUE(sums["next"].is_null());
}

TEST(InspectView, Namespaces_show_every_field_without_control_characters) {
  const std::string text = namespaces_text(one_namespace(), kPlain);
  EXPECT_THAT(text, HasSubstr("namespace 3 (vllm, model m?[2J)"));
  EXPECT_THAT(text, HasSubstr(std::string(32, 'a')));
  EXPECT_THAT(text, HasSubstr("tp_rank  2"));
  EXPECT_THAT(text, HasSubstr("10, 80.0 KiB in slots of 8.00 KiB"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_EQ(namespaces_text({}, kPlain), "no namespace is open\n");
}

TEST(InspectView, Absent_key_says_what_is_known) {
  const auto all = one_namespace();
  const Json facts = as_read({{"present", false},
                              {"id", "00ff"},
                              {"also_in", {3}},
                              {"left", {{"cause", "evicted"}, {"seconds_ago", 90.0}}}});
  const std::string text = key_text(facts, all[0], all, kPlain);
  EXPECT_THAT(text, HasSubstr("not present"));
  EXPECT_THAT(text, HasSubstr("evicted"));
  EXPECT_THAT(text, HasSubstr("the same page is in namespace 3"));
  EXPECT_THAT(key_text({{"present", false}}, all[0], all, kPlain),
              HasSubstr("never written, or long ago"));
}

TEST(InspectView, Present_key_names_its_readers) {
  const auto all = one_namespace();
  const Json facts = as_read({{"present", true},
                              {"slot", 12},
                              {"generation", 4},
                              {"state", "committed"},
                              {"value_len", 5'000},
                              {"group_index", 1},
                              {"member_count", 2},
                              {"members", {11, 12}},
                              {"put", {{"client", 7}, {"sequence", 5}}},
                              {"writer", {{"client", 7}, {"name", ""}}},
                              {"pinned_by", {{{"client", 8}, {"name", "r\n"}, {"pages", 2}}}}});
  const std::string text = key_text(facts, all[0], all, kPlain);
  EXPECT_THAT(text, HasSubstr("member 2 of 2, slots 11 12"));
  EXPECT_THAT(text, HasSubstr("client 8 'r?', 2 times"));
  EXPECT_THAT(text, HasSubstr("number 5 of client 7, which has gone"));
  EXPECT_THAT(text, HasSubstr("none: the first page of its prefix"));
}

TEST(InspectView, Control_characters_are_masked_wherever_a_node_puts_them) {
  auto all = one_namespace();
  all[0].facts["descriptor"]["a\x7f"] = "b\x7f";
  EXPECT_THAT(namespaces_text(all, kPlain), AllOf(HasSubstr("a?"), HasSubstr("b?")));
  const Json facts = as_read({{"slot", 12}, {"members", {"c\u009b"}}});
  EXPECT_THAT(key_text(facts, all[0], all, kPlain), HasSubstr("slots \"c?\""));
}

TEST(InspectView, Nothing_that_is_missing_breaks_a_view) {
  const Json nothing = Json::object();
  const auto all = one_namespace();
  EXPECT_THAT(slot_sums_text(nothing, all, kPlain), HasSubstr("every slot is free"));
  EXPECT_THAT(client_text(nothing, nothing, all, kPlain), HasSubstr("client 0"));
  EXPECT_EQ(slot_list_text(Json::array()), "no such slot is in use\n");
  EXPECT_THAT(slot_list_text(as_read({{{"slot", 5}}})), HasSubstr("flushed"));
}

}  // namespace
}  // namespace orlop::cli
