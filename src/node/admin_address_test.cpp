// SPDX-License-Identifier: Apache-2.0
#include "node/admin_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace orlop::node {
namespace {

using ::testing::HasSubstr;
using Kind = AdminAddress::Kind;

TEST(AdminAddress, Three_forms_are_understood) {
  EXPECT_EQ(parse_admin_address("off").value(), AdminAddress{});
  EXPECT_EQ(parse_admin_address("127.0.0.1:9464").value(),
            (AdminAddress{Kind::kTcp, "127.0.0.1", 9464, {}}));
  EXPECT_EQ(parse_admin_address("localhost:0").value(),
            (AdminAddress{Kind::kTcp, "127.0.0.1", 0, {}}));
  EXPECT_EQ(parse_admin_address("unix:/run/a.sock").value(),
            (AdminAddress{Kind::kUnix, {}, 0, "/run/a.sock"}));
}

TEST(AdminAddress, Others_are_refused_with_a_remedy) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "host:port"},           {"9464", "host:port"},
      {"127.0.0.1:", "no port"},   {"127.0.0.1:70000", "port"},
      {"127.0.0.1:1x", "port"},    {"0.0.0.0:80", "not loopback"},
      {"10.0.0.1:80", "loopback"}, {"example.org:80", "no IPv4"},
      {"unix:", "1 to 107"},       {"unix:/" + std::string(200, 'x'), "107"}};
  for (const auto& [text, said] : cases) {
    const auto address = parse_admin_address(text);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(address.error().message, HasSubstr(said)) << text;
  }
}

TEST(AdminListener, Any_port_is_told) {
  const auto first = AdminListener::listen({Kind::kTcp, "127.0.0.1", 0, {}});
  ASSERT_TRUE(first) << first.error().message;
  const auto bound = parse_admin_address(first->bound());
  ASSERT_TRUE(bound);
  EXPECT_NE(bound->port, 0);
  const auto second = AdminListener::listen(*bound);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kAddressInUse);
}

TEST(AdminListener, Unix_path_is_taken_once_freed_and_replaced_when_stale) {
  const std::string path = ::testing::TempDir() + "admin_" + std::to_string(::getpid()) + ".sock";
  const AdminAddress address{Kind::kUnix, {}, 0, path};
  {
    const auto first = AdminListener::listen(address);
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(first->bound(), "unix:" + path);
    EXPECT_EQ(AdminListener::listen(address).error().code, ErrorCode::kAddressInUse);
  }
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

TEST(AdminListener, Off_listens_nowhere) {
  const auto listener = AdminListener::listen({});
  ASSERT_TRUE(listener);
  EXPECT_FALSE(*listener);
  EXPECT_EQ(listener->bound(), "off");
}

}  // namespace
}  // namespace orlop::node
