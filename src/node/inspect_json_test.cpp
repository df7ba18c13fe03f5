// SPDX-License-Identifier: Apache-2.0
#include "node/inspect_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace orlop::node {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;
namespace question = protocol::question;

constexpr char kId[] = "00112233445566778899aabbccddeeff";

std::string refused(std::string_view what, const QueryParameters& parameters) {
  const auto parsed = parse_inspection(what, parameters);
  EXPECT_TRUE(parsed || parsed.error().code == ErrorCode::kInvalidArgument);
  return parsed ? "accepted" : parsed.error().message;
}

TEST(InspectJson, Questions_are_read_from_their_parameters) {
  EXPECT_EQ(std::get<question::SlotSums>(*parse_inspection("sums", {})).from, SlabId{0});
  EXPECT_EQ(std::get<question::SlotSums>(*parse_inspection("sums", {{"from", "7"}})).from,
            SlabId{7});
  const auto list = std::get<question::SlotList>(
      *parse_inspection("slots", {{"after", "4294967295"}, {"row", "3"}, {"limit", "5"}}));
  EXPECT_EQ(list.after, SlotId{0xffffffff});
  EXPECT_EQ(list.row, NamespaceRow{3});
  EXPECT_EQ(list.limit, 5u);
  const auto key = std::get<question::Key>(*parse_inspection("key", {{"row", "0"}, {"id", kId}}));
  EXPECT_EQ(key.key.hi, 0x0011223344556677u);
  EXPECT_EQ(key.key.lo, 0x8899aabbccddeeffu);
  EXPECT_EQ(key_id_text(key.key), kId);
  EXPECT_EQ(std::get<question::Client>(*parse_inspection("client", {{"id", "12"}})).client,
            ClientId{12});
}

TEST(InspectJson, Hostile_questions_are_refused_in_words) {
  const struct {
    const char* what;
    QueryParameters parameters;
    const char* part;
  } kCases[] = {
      {"", {}, "cannot be inspected"},
      {"../../etc/passwd", {}, "known are: sums, slots, key, client"},
      {"sums", {{"frm", "1"}}, "parameter 'frm' is unknown; known are: from"},
      {"sums", {{"from", "1"}, {"from", "2"}}, "more than once"},
      {"sums", {{"from", ""}}, "from is ''"},
      {"sums", {{"from", "-1"}}, "from is '-1'"},
      {"sums", {{"from", "+1"}}, "from is '+1'"},
      {"sums", {{"from", "0x10"}}, "from is '0x10'"},
      {"sums", {{"from", " 1"}}, "from is ' 1'"},
      {"sums", {{"from", "4294967296"}}, "0 to 4294967295"},
      {"sums", {{"from", "99999999999999999999999"}}, "0 to 4294967295"},
      {"sums", {{"from", std::string("1\0", 2)}}, "from is '1?'"},
      {"sums", {{std::string(100'000, 'x'), ""}}, "xxx...' is unknown"},
      {"sums", {{"\x1b[31m", ""}}, "'?[31m'"},
      {"slots", {{"limit", "0"}}, "limit is 0; allowed are 1 to 256"},
      {"slots", {{"limit", "257"}}, "limit is 257"},
      {"slots", {{"row", "a"}}, "row is 'a'"},
      {"key", {}, "'row' is missing"},
      {"key", {{"row", "0"}}, "32 hex digits"},
      {"key", {{"row", "0"}, {"id", "00112233445566778899aabbccddeef"}}, "32 hex digits"},
      {"key", {{"row", "0"}, {"id", "0011223344556677-899aabbccddeeff"}}, "32 hex digits"},
      {"key", {{"row", "0"}, {"id", "0011223344556677 899aabbccddeeff"}}, "32 hex digits"},
      {"client", {}, "'id' is missing"},
      {"client", {{"id", "worker"}}, "id is 'worker'"},
  };
  for (const auto& c : kCases)
    EXPECT_THAT(refused(c.what, c.parameters), HasSubstr(c.part)) << c.what;
}

TEST(InspectJson, A_refusal_is_short_whatever_was_sent) {
  EXPECT_LT(refused(std::string(1'000'000, 'y'), {}).size(), 200u);
  EXPECT_LT(refused("sums", {{"from", std::string(1'000'000, '1')}}).size(), 200u);
}

TEST(InspectJson, Key_ids_go_there_and_back) {
  EXPECT_EQ(key_id_text(KeyId{.lo = 1, .hi = 0}), "00000000000000000000000000000001");
  EXPECT_EQ(parse_key_id(key_id_text(KeyId{.lo = 5, .hi = ~std::uint64_t{0}})),
            (KeyId{.lo = 5, .hi = ~std::uint64_t{0}}));
  EXPECT_FALSE(parse_key_id("").has_value());
}

TEST(InspectJson, A_key_that_is_not_there_has_no_slot) {
  protocol::KeyFacts facts;
  facts.also_in = {NamespaceRow{4}};
  const Json json = Json::parse(inspection_json(facts));
  EXPECT_FALSE(json["present"].get<bool>());
  EXPECT_EQ(json["also_in"], Json::array({4}));
  EXPECT_FALSE(json.contains("slot"));
  EXPECT_FALSE(json.contains("left"));
  facts.left = {protocol::MissCause::kEvicted, 90 * kNsPerSecond};
  const Json left = Json::parse(inspection_json(facts))["left"];
  EXPECT_EQ(left["cause"], "evicted");
  EXPECT_EQ(left["seconds_ago"], 90.0);
}

TEST(InspectJson, A_key_being_written_is_not_present_but_has_a_slot) {
  protocol::KeyFacts facts;
  facts.slot.emplace();
  facts.slot->slot = SlotId{9};
  facts.slot->word.state = segment::SlotState::kPrepared;
  facts.slot->fields.put = make_put_id(ClientId{3}, 17);
  const Json json = Json::parse(inspection_json(facts));
  EXPECT_FALSE(json["present"].get<bool>());
  EXPECT_EQ(json["slot"], 9);
  EXPECT_EQ(json["state"], "prepared");
  EXPECT_EQ(json["put"]["client"], 3);
  EXPECT_EQ(json["put"]["sequence"], 17);
  EXPECT_TRUE(json["row"].is_null());
  EXPECT_TRUE(json["parent"].is_null());
}

TEST(InspectJson, Names_that_are_no_text_do_not_break_the_answer) {
  protocol::ClientFacts facts;
  facts.name = "bad\xff\n\"name";
  facts.held.by_row.push_back({.row = NamespaceRow{1}, .pages = 2, .bytes = 8'192});
  const Json json = Json::parse(inspection_json(facts));
  EXPECT_THAT(json["name"].get<std::string>(), HasSubstr("bad"));
  EXPECT_EQ(json["held_by_namespace"][0]["bytes"], 8'192);
}

TEST(InspectJson, Sums_name_states_and_where_to_go_on) {
  protocol::SlotSums sums;
  sums.classes.resize(1);
  sums.classes[0].slot_pages = 2;
  sums.classes[0].slots[3] = 5;
  sums.namespaces.resize(1);
  sums.next = SlabId{8};
  const Json json = Json::parse(inspection_json(sums));
  EXPECT_EQ(json["classes"][0]["slot_bytes"], 8'192);
  EXPECT_EQ(json["classes"][0]["slots"]["committed"], 5);
  EXPECT_TRUE(json["namespaces"][0]["row"].is_null());
  EXPECT_EQ(json["next"], 8);
}

}  // namespace
}  // namespace orlop::node
