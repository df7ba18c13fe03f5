// SPDX-License-Identifier: Apache-2.0
// How a PCI device is connected, from sysfs: link, memory node, first large window (BAR).
//
// Guarantees: what the machine does not tell (virtual machines often do not) is none, never a
// guess. Thread: any. root: "" for the real system; a folder that holds a sys/ tree in tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "orlop/error.h"

namespace orlop {

struct PciLink {
  // Giga-transfers a second: 2.5, 5, 8, 16, 32, 64 for generations 1 to 6. A device at rest may
  // run its link slower than under load.
  std::optional<double> speed, most_speed;
  std::optional<int> width, most_width;  // lanes
  std::optional<int> numa_node;
  std::optional<std::uint64_t> window_bytes;  // of the largest BAR
};

// address: "0000:17:00.0", in any case of letters. Errors: kInvalidArgument (no such address),
// kSystem (no such device in sysfs).
Result<PciLink> read_pci_link(std::string_view address, const std::string& root = {});

// PCI Express generation of a speed; none for an unknown one.
std::optional<int> pci_generation(double speed);
// 10^9 bytes a second that such a link carries at most, one way, packet headers not counted.
double pci_gb_s(double speed, int width);

// Distance of two memory nodes as the firmware tells it: 10 is the same node. None: not told.
std::optional<int> numa_distance(int from, int to, const std::string& root = {});
// Memory node of the CPU that the calling thread runs on. None: not told.
std::optional<int> numa_node_here();

}  // namespace orlop
