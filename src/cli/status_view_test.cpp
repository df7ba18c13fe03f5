// SPDX-License-Identifier: Apache-2.0
#include "cli/status_view.h"

#include <gtest/gtest.h>

#include "cli/json_parts.h"
#include "cli/status_fields.h"

namespace orlop::cli {
namespace {

using Json = nlohmann::ordered_json;

const Painter kNoColour(false);

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(StatusView, Figures_are_shown_with_units) {
  const Json status = Json::parse(R"({
    "version": "0.1.0", "abi": 1, "segment_id": "255", "incarnation": "16", "state": "ready",
    "uptime_seconds": 125.0, "server_uptime_seconds": 1.5, "restarts": 2, "last_end": "signal 9",
    "memory": {"value_bytes": 268435456, "readable_bytes": 134217728, "prepared_bytes": 0,
               "slots": {"free": 2048, "committed": 2048}},
    "attached": 1,
    "clients": [{"client": 7, "name": "w", "pid": 42, "state": "attached", "pinned_bytes": 65536,
                 "prepared_bytes": 0, "oldest_put_seconds": 2.0}],
    "namespaces": [{"value_len": 65536, "slots": 2048,
                    "descriptor": {"engine": "vllm", "model": "m", "dtype": "bf16"}}],
    "counters": {"touches": 1234567}})");
  const std::string text = status_text(status, "/run/x.sock", kNoColour);
  for (const char* part : {"/run/x.sock", "ready", "2 m 05 s", "2 restarts", "00000000000000ff",
                           "signal 9", "256 MiB", "50.0 %", "2,048 committed", "64.0 KiB",
                           "1,234,567", "vllm", "oldest plan of a put: 2.00 s"}) {
    EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
  }
}

TEST(StatusView, Anything_may_be_missing_or_of_another_type) {
  for (const char* json : {"{}", R"({"memory": 3, "clients": {"a": 1}, "namespaces": "x"})",
                           R"({"clients": [1, {}], "namespaces": [null]})"}) {
    EXPECT_TRUE(contains(status_text(Json::parse(json), "s", kNoColour), "memory")) << json;
  }
}

TEST(StatusView, Control_characters_of_a_name_are_masked) {
  Json status;
  status["clients"] = Json::array({{{"name", "a\033[31m\n"}}});
  const std::string text = status_text(status, "s", kNoColour);
  EXPECT_TRUE(contains(text, "a?[31m?")) << text;
}

TEST(StatusView, Control_characters_of_a_state_are_masked) {
  Json status;
  status["memory"]["slots"]["a\x7f"] = 3;
  const std::string text = status_text(status, "s", kNoColour);
  EXPECT_TRUE(contains(text, "3 a?")) << text;
}

TEST(StatusFields, Control_characters_of_both_ranges_are_masked_and_letters_are_not) {
  EXPECT_EQ(status_fields::masked("\x1b[1m \x7f \u0080 \u009b2J \u009f"), "?[1m ? ? ?2J ?");
  EXPECT_EQ(status_fields::masked("\u00a0\u00c2\u00e9 \u4f60"), "\u00a0\u00c2\u00e9 \u4f60");
  EXPECT_EQ(status_fields::masked("cut\xc2"), "cut\xc2");
}

TEST(StatusFields, Numbers_of_another_type_are_unknown) {
  const Json status = Json::parse(R"({"state": 3, "counters": {"a": "1", "b": -1, "c": 7}})");
  EXPECT_EQ(status_fields::text(status, "state"), "-");
  EXPECT_EQ(status_fields::counter(status, "a"), 0u);
  EXPECT_EQ(status_fields::counter(status, "b"), 0u);
  EXPECT_EQ(status_fields::counter(status, "c"), 7u);
  EXPECT_EQ(status_fields::counter(Json::array(), "c"), 0u);
  EXPECT_EQ(status_fields::duration_text(1e300), status_fields::duration_text(1e10));
}

TEST(JsonParts, Bytes_that_are_no_text_are_replaced_or_kept) {
  const std::string path = "/tmp/\xff/n";
  EXPECT_EQ(json_text(Json{{"path", path}}, -1), "{\"path\":\"/tmp/\ufffd/n\"}");
  EXPECT_EQ(bytes_of_json(Json::parse(bytes_json(path).dump())), path);
}

TEST(StatusView, Long_lists_are_cut) {
  Json status;
  status["clients"] = Json::array();
  for (int i = 0; i < 25; ++i) status["clients"].push_back({{"client", i}});
  EXPECT_TRUE(contains(status_text(status, "s", kNoColour), "and 5 more"));
}

}  // namespace
}  // namespace orlop::cli
