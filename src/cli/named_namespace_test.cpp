// SPDX-License-Identifier: Apache-2.0
#include "cli/named_namespace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/status_fields.h"
#include "segment/key_id.h"

namespace orlop::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using Json = nlohmann::ordered_json;

NamespaceDescriptor descriptor(std::uint32_t rank) {
  NamespaceDescriptor d;
  d.engine = "demo";
  d.layout = "demo-1";
  d.model = "m";
  d.revision = "r1";
  d.dtype = "bf16";
  d.page_tokens = 16;
  d.value_len = 4'096;
  d.tp_rank = rank;
  d.tp_size = 8;
  return d;
}

Json status_with(std::uint32_t namespaces) {
  Json status = {{"namespaces", Json::array()}};
  for (std::uint32_t row = 0; row < namespaces; ++row) {
    status["namespaces"].push_back({{"row", row},
                                    {"index", row + 5},
                                    {"slots", 10 * row},
                                    {"descriptor", Json::parse(*canonical_text(descriptor(row)))}});
  }
  return status;
}

TEST(NamedNamespace, Is_found_by_row_and_by_digest) {
  const auto all = list_namespaces(status_with(3));
  ASSERT_TRUE(all.has_value()) << all.error().message;
  ASSERT_THAT(*all, SizeIs(3));
  const NamedNamespace by_row = find_namespace(*all, "2").value();
  EXPECT_EQ(by_row.row, NamespaceRow{2});
  EXPECT_EQ(by_row.descriptor, descriptor(2));
  EXPECT_EQ(find_namespace(*all, by_row.digest).value().row, NamespaceRow{2});
  EXPECT_EQ(find_namespace(*all, by_row.digest.substr(0, 8)).value().row, NamespaceRow{2});
  std::string upper = by_row.digest.substr(0, 12);
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  EXPECT_EQ(find_namespace(*all, upper).value().row, NamespaceRow{2});
}

TEST(NamedNamespace, Ranks_of_a_family_share_its_digest_and_their_keys_ids) {
  const auto all = *list_namespaces(status_with(2));
  EXPECT_NE(all[0].digest, all[1].digest);
  EXPECT_EQ(all[0].family_digest, all[1].family_digest);
  EXPECT_EQ(all[0].id_of("page"), all[1].id_of("page"));
  const segment::KeyHasher hasher(segment::digest_of(*family_text(descriptor(0))));
  EXPECT_EQ(all[0].id_of("page"), hasher.hash("page", 4));
}

TEST(NamedNamespace, What_names_none_is_refused_with_what_there_is) {
  const auto all = *list_namespaces(status_with(2));
  for (const char* name : {"", "x", "abc", "12345", "-1", "0x12", "demo", "12 "}) {
    const auto found = find_namespace(all, name);
    ASSERT_FALSE(found.has_value()) << name;
    EXPECT_EQ(found.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(found.error().message, HasSubstr("0 = " + all[0].digest.substr(0, 12)));
  }
  EXPECT_THAT(find_namespace(all, "9").error().message, HasSubstr("no namespace is called '9'"));
  EXPECT_THAT(find_namespace({}, "0").error().message, HasSubstr("none is open"));
}

TEST(NamedNamespace, A_descriptor_of_a_newer_node_is_an_error_not_a_guess) {
  Json status = status_with(1);
  status["namespaces"][0]["descriptor"]["quantum"] = 7;
  const auto all = list_namespaces(status);
  ASSERT_FALSE(all.has_value());
  EXPECT_EQ(all.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(all.error().message, HasSubstr("quantum"));
}

// Found by tests/fuzz/status.cpp.
TEST(NamedNamespace, Control_characters_of_a_field_nobody_knows_are_masked) {
  const Json status = {{"namespaces", {{{"descriptor", {{"a\x7f\u009b2J", 1}}}}}}};
  const auto all = list_namespaces(status);
  ASSERT_FALSE(all.has_value());
  EXPECT_EQ(status_fields::masked(all.error().message), all.error().message);
}

TEST(NamedNamespace, Title_says_engine_model_and_rank) {
  EXPECT_EQ((*list_namespaces(status_with(2)))[1].title(), "namespace 1 (demo, model m, rank 1/8)");
}

}  // namespace
}  // namespace orlop::cli
