// SPDX-License-Identifier: Apache-2.0
#include "platform/pci_link.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace orlop {
namespace {

constexpr char kDevice[] = "/sys/bus/pci/devices/0000:1b:00.0/";

class PciLinks : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(root_), nullptr);
    std::filesystem::create_directories(root_ + std::string(kDevice));
    std::filesystem::create_directories(root_ + std::string("/sys/devices/system/node/node1"));
    write("resource",
          "0x0000000094000000 0x0000000094ffffff 0x0000000000040200\n"
          "0x0000040000000000 0x0000043fffffffff 0x000000000014220c\n"
          "0x0000000000000000 0x0000000000000000 0x0000000000000000\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(root_ + (kDevice + name)) << text;
  }
  PciLink read() {
    const auto link = read_pci_link("0000:1B:00.0", root_);
    EXPECT_TRUE(link.has_value());
    return link.value_or(PciLink{});
  }

  char root_[32] = "/tmp/orlop-pci-XXXXXX";
};

TEST_F(PciLinks, All_that_is_told_is_read) {
  write("current_link_speed", "16.0 GT/s PCIe\n");
  write("max_link_speed", "32.0 GT/s PCIe\n");
  write("current_link_width", "8\n");
  write("max_link_width", "16\n");
  write("numa_node", "1\n");
  const PciLink link = read();
  EXPECT_EQ(link.speed, 16.0);
  EXPECT_EQ(link.most_speed, 32.0);
  EXPECT_EQ(link.width, 8);
  EXPECT_EQ(link.most_width, 16);
  EXPECT_EQ(link.numa_node, 1);
  EXPECT_EQ(link.window_bytes, std::uint64_t{256} << 30);
}

TEST_F(PciLinks, What_a_virtual_machine_does_not_tell_is_none) {
  write("current_link_speed", "Unknown\n");
  write("max_link_speed", "Unknown speed\n");
  write("current_link_width", "0\n");
  write("max_link_width", "255\n");
  write("numa_node", "-1\n");
  const PciLink link = read();
  EXPECT_EQ(link.speed, std::nullopt);
  EXPECT_EQ(link.most_speed, std::nullopt);
  EXPECT_EQ(link.width, std::nullopt);
  EXPECT_EQ(link.most_width, std::nullopt);
  EXPECT_EQ(link.numa_node, std::nullopt);
}

TEST_F(PciLinks, Absent_device_and_bad_addresses_are_errors) {
  EXPECT_EQ(read_pci_link("0000:1c:00.0", root_).error().code, ErrorCode::kSystem);
  EXPECT_EQ(read_pci_link("../../..", root_).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(read_pci_link("", root_).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(PciLinks, Distance_is_that_of_the_table) {
  std::ofstream(root_ + std::string("/sys/devices/system/node/node1/distance")) << "21 10 31\n";
  EXPECT_EQ(numa_distance(1, 0, root_), 21);
  EXPECT_EQ(numa_distance(1, 1, root_), 10);
  EXPECT_EQ(numa_distance(1, 2, root_), 31);
  EXPECT_EQ(numa_distance(1, 3, root_), std::nullopt);
  EXPECT_EQ(numa_distance(0, 1, root_), std::nullopt);
}

TEST(PciSpeeds, Generations_and_what_they_carry) {
  EXPECT_EQ(pci_generation(2.5), 1);
  EXPECT_EQ(pci_generation(32), 5);
  EXPECT_EQ(pci_generation(7), std::nullopt);
  EXPECT_NEAR(pci_gb_s(32, 16), 63.0, 0.1);
  EXPECT_NEAR(pci_gb_s(8, 16), 15.75, 0.01);
  EXPECT_NEAR(pci_gb_s(2.5, 1), 0.25, 0.001);
}

}  // namespace
}  // namespace orlop
