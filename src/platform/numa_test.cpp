// SPDX-License-Identifier: Apache-2.0
#include "platform/numa.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/bytes.h"
#include "platform/first_touch.h"
#include "platform/memory_file.h"
#include "platform/test_process.h"

namespace orlop {
namespace {

TEST(Numa, Policy_text_is_read_and_refused) {
  EXPECT_EQ(*parse_numa_policy("default"), NumaPolicy{});
  EXPECT_EQ(*parse_numa_policy("interleave"), (NumaPolicy{NumaPolicy::Kind::kInterleave, 0}));
  EXPECT_EQ(*parse_numa_policy("node:3"), (NumaPolicy{NumaPolicy::Kind::kNode, 3}));
  for (const char* bad : {"", "node:", "node:-1", "node:1024", "node:1x", "Interleave", "node 1"}) {
    auto policy = parse_numa_policy(bad);
    ASSERT_FALSE(policy.has_value()) << bad;
    EXPECT_NE(policy.error().message.find("node:N"), std::string::npos);
  }
}

TEST(Numa, Number_lists_of_sysfs) {
  EXPECT_EQ(*parse_number_list("0\n"), (std::vector<int>{0}));
  EXPECT_EQ(*parse_number_list("0-3,8\n"), (std::vector<int>{0, 1, 2, 3, 8}));
  EXPECT_EQ(*parse_number_list("8,0-1,1\n"), (std::vector<int>{0, 1, 8}));
  EXPECT_TRUE(parse_number_list("\n")->empty());
  for (const char* bad : {"a", "3-1", "0-99999", "1--2", "-1"}) {
    EXPECT_FALSE(parse_number_list(bad).has_value()) << bad;
  }
}

TEST(Numa, Nodes_come_from_the_given_tree) {
  TestFolder root;
  EXPECT_EQ(*numa_nodes(root.path()), (std::vector<int>{0}));  // no NUMA
  std::filesystem::create_directories(root / "sys/devices/system/node");
  std::ofstream(root / "sys/devices/system/node/has_memory") << "0,2-3\n";
  EXPECT_EQ(*numa_nodes(root.path()), (std::vector<int>{0, 2, 3}));
}

constexpr const char* kNumaMaps =
    "7f0000000000 default file=/usr/lib/x mapped=2 N0=2 kernelpagesize_kB=4\n"
    "7f0000100000 interleave:0-1 file=/memfd:orlop\\040(deleted) dirty=30 N0=10 N1=20 "
    "kernelpagesize_kB=4\n"
    "7f0000200000 bind:1 file=/memfd:huge huge dirty=2 N1=2 kernelpagesize_kB=2048\n"
    "7f0000900000 default\n";

TEST(Numa, Maps_are_summed_per_node_with_their_page_size) {
  EXPECT_EQ(parse_numa_maps(kNumaMaps, 0x7f0000100000, 0x7f0000200000),
            (std::map<int, std::uint64_t>{{0, 10 * 4096}, {1, 20 * 4096}}));
  EXPECT_EQ(parse_numa_maps(kNumaMaps, 0x7f0000100000, 0x7f0000700000),
            (std::map<int, std::uint64_t>{{0, 10 * 4096}, {1, 20 * 4096 + 2 * 2 * kMiB}}));
  // In the middle of an area.
  EXPECT_EQ(parse_numa_maps(kNumaMaps, 0x7f0000101000, 0x7f0000102000),
            (std::map<int, std::uint64_t>{{0, 10 * 4096}, {1, 20 * 4096}}));
  EXPECT_TRUE(parse_numa_maps(kNumaMaps, 0x7f0000900000, 0x7f0000a00000).empty());
  EXPECT_TRUE(parse_numa_maps("nonsense\n\nN0=3", 0, ~0ull).empty());
}

TEST(Numa, Bound_memory_lies_on_its_nodes) {
  auto nodes = numa_nodes();
  ORLOP_ASSERT_OK(nodes);
  for (const NumaPolicy& policy : {NumaPolicy{NumaPolicy::Kind::kNode, nodes->front()},
                                   NumaPolicy{NumaPolicy::Kind::kInterleave, 0}}) {
    auto file = MemoryFile::create({.name = "orlop-numa", .bytes = 4 * kMiB});
    ORLOP_ASSERT_OK(file);
    auto mapping =
        Mapping::map({.fd = file->fd(), .bytes = 4 * kMiB, .access = Access::kReadWrite});
    ORLOP_ASSERT_OK(mapping);
    ORLOP_ASSERT_OK(bind(*mapping, policy));
    ORLOP_ASSERT_OK(first_touch(*mapping, {}));
    auto placed = bytes_by_node(*mapping);
    ORLOP_ASSERT_OK(placed);
    std::uint64_t sum = 0;
    for (const auto& [node, bytes] : *placed) sum += bytes;
    EXPECT_EQ(sum, 4 * kMiB);
    if (policy.kind == NumaPolicy::Kind::kNode) {
      EXPECT_EQ(placed->size(), 1u);
      EXPECT_EQ(placed->begin()->first, policy.node);
    }
  }
}

TEST(Numa, Unknown_node_is_refused_and_the_known_ones_named) {
  auto refused = bind(Mapping{}, NumaPolicy{NumaPolicy::Kind::kNode, 1023});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("on node 0"), std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace orlop
