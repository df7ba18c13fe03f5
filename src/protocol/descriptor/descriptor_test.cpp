// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocol/descriptor/fields.h"

namespace orlop {
namespace {

using ::testing::HasSubstr;

NamespaceDescriptor example() {
  NamespaceDescriptor d;
  d.engine = "vllm";
  d.layout = "vllm-0.32/NHD";
  d.model = "Qwen/Qwen3-8B";
  d.revision = "sha256:0123";
  d.dtype = "bf16";
  d.page_tokens = 16;
  d.value_len = 65'536;
  d.tp_rank = 1;
  d.tp_size = 2;
  return d;
}

constexpr char kExampleText[] =
    R"({"engine":"vllm","layout":"vllm-0.32/NHD","model":"Qwen/Qwen3-8B","revision":"sha256:0123",)"
    R"("dtype":"bf16","component":"kv","codec":"none","page_tokens":16,"value_len":65536,)"
    R"("tp_rank":1,"tp_size":2,"pp_rank":0,"pp_size":1,"cp_rank":0,"cp_size":1,)"
    R"("first_layer":0,"layers":0,"first_head":0,"heads":0})";

std::string parse_error(std::string_view text) {
  const auto parsed = parse_descriptor(text);
  return parsed ? "" : parsed.error().message;
}

TEST(Descriptor, Canonical_text_is_golden) {
  EXPECT_EQ(canonical_text(example()).value(), kExampleText);
}

TEST(Descriptor, Parse_of_canonical_text_gives_it_back) {
  EXPECT_EQ(parse_descriptor(kExampleText).value(), example());
  NamespaceDescriptor odd = example();
  odd.model = "a \"quoted\" \\ name, Grüße, 模型";
  odd.component = "mamba";
  const auto text = canonical_text(odd);
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(parse_descriptor(*text).value(), odd);
}

TEST(Descriptor, Order_and_space_do_not_matter) {
  const auto parsed = parse_descriptor(
      R"( { "value_len": 65536, "tp_size": 2, "page_tokens": 16, "tp_rank": 1, "dtype": "bf16",
            "revision": "sha256:0123", "model": "Qwen\/Qwen3-8B", "layout": "vllm-0.32/NHD",
            "engine": "vllm" } )");
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(canonical_text(*parsed).value(), kExampleText);
}

TEST(Descriptor, Family_is_the_same_on_every_rank) {
  NamespaceDescriptor other = example();
  other.tp_rank = 0;
  other.first_layer = 12;
  other.heads = 4;
  EXPECT_EQ(family_text(other).value(), family_text(example()).value());
  EXPECT_NE(canonical_text(other).value(), canonical_text(example()).value());
  other.dtype = "fp8";
  EXPECT_NE(family_text(other).value(), family_text(example()).value());
}

TEST(Descriptor, Unknown_field_is_refused_with_the_nearest_name) {
  const auto parsed = parse_descriptor(R"({"page_token": 16})");
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().code, ErrorCode::kNamespaceConflict);
  EXPECT_THAT(parsed.error().message, HasSubstr("unknown field 'page_token'"));
  EXPECT_THAT(parsed.error().message, HasSubstr("did you mean 'page_tokens'"));
}

TEST(Descriptor, Long_unknown_field_is_shortened) {
  const std::string name(10'000, 'x');
  EXPECT_LT(parse_error("{\"" + name + "\": 1}").size(), 300u);
}

TEST(Descriptor, Bad_texts_are_refused_by_name) {
  const struct {
    const char* text;
    const char* part;
  } kCases[] = {
      {"", "not JSON"},
      {"{", "not JSON"},
      {"[]", "an array, not an object"},
      {"7", "a number, not an object"},
      {"null", "null, not an object"},
      {R"({"engine": 7})", "engine is a number"},
      {R"({"engine": {"a": 1}})", "engine is an object"},
      {R"({"engine": ["vllm"]})", "engine is an array"},
      {R"({"engine": null})", "engine is null"},
      {R"({"page_tokens": "16"})", "page_tokens is a string"},
      {R"({"page_tokens": 16.5})", "page_tokens is a fraction"},
      {R"({"page_tokens": true})", "page_tokens is a boolean"},
      {R"({"page_tokens": -1})", "page_tokens is -1"},
      {R"({"page_tokens": 99999999999})", "page_tokens is 99999999999"},
      {R"({"engine": "a", "engine": "b"})", "'engine' is given twice"},
      {R"({"engine": "vllm"})", "layout is missing"},
      {R"({} {})", "not JSON"},
      {"{\"engine\": \"\xff\"}", "not JSON"},
  };
  for (const auto& c : kCases) EXPECT_THAT(parse_error(c.text), HasSubstr(c.part)) << c.text;
}

TEST(Descriptor, Overlong_text_is_refused) {
  EXPECT_THAT(parse_error(std::string(20'000, ' ')), HasSubstr("20000 bytes"));
}

TEST(Descriptor, Every_required_field_is_named_when_missing) {
  for (const DescriptorField& field : descriptor_fields()) {
    if (!field.required) continue;
    NamespaceDescriptor d = example();
    if (field.text != nullptr) {
      (d.*field.text).clear();
    } else {
      d.*field.number = 0;
    }
    const auto text = canonical_text(d);
    ASSERT_FALSE(text.has_value()) << field.name;
    EXPECT_THAT(text.error().message, HasSubstr(std::string(field.name) + " is missing"));
  }
}

TEST(Descriptor, Values_outside_their_limits_are_refused) {
  NamespaceDescriptor d = example();
  d.model = std::string(257, 'm');
  EXPECT_THAT(canonical_text(d).error().message, HasSubstr("model has 257 bytes"));
  d = example();
  d.model = "two\nlines";
  EXPECT_THAT(canonical_text(d).error().message, HasSubstr("model is not plain text"));
  d = example();
  d.model = "\xed\xa0\x80";  // a surrogate
  EXPECT_THAT(canonical_text(d).error().message, HasSubstr("model is not plain text"));
  d = example();
  d.model = "a\u009b31m";  // a terminal takes it for ESC [
  EXPECT_THAT(canonical_text(d).error().message, HasSubstr("model is not plain text"));
  d.model = "a\u00a0b";  // the first one that is no control
  EXPECT_TRUE(canonical_text(d).has_value());
  d = example();
  d.tp_rank = 2;
  EXPECT_THAT(canonical_text(d).error().message, HasSubstr("tp_rank is 2, but tp_size is 2"));
  d = example();
  d.cp_size = 0;
  EXPECT_THAT(canonical_text(d).error().message, HasSubstr("cp_size is 0; allowed are 1"));
  d = example();
  d.value_len = kMaxDescriptorValueLen + 1;
  EXPECT_THAT(canonical_text(d).error().message, HasSubstr("value_len is 536870913"));
}

TEST(Descriptor, Longest_text_fits_its_place) {
  NamespaceDescriptor d = example();
  for (const DescriptorField& field : descriptor_fields()) {
    if (field.text != nullptr) {
      d.*field.text = std::string(kMaxDescriptorString, '"');  // doubled by its escape
    } else {
      d.*field.number = field.most;
    }
  }
  d.tp_rank = d.pp_rank = d.cp_rank = 0;
  const auto text = canonical_text(d);
  ASSERT_TRUE(text.has_value()) << text.error().message;
  EXPECT_LE(text->size(), 4096u);  // segment::kNamespaceTextBytes
  EXPECT_EQ(parse_descriptor(*text).value(), d);
}

}  // namespace
}  // namespace orlop
