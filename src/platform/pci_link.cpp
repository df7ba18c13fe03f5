// SPDX-License-Identifier: Apache-2.0
#include "platform/pci_link.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <sstream>

#include "platform/small_file.h"

namespace orlop {
namespace {

struct Generation {
  double speed;
  double carried;  // share of the transfers that is data: 8b/10b, 128b/130b, flits
};
constexpr std::array<Generation, 6> kGenerations = {{{2.5, 0.8},
                                                     {5, 0.8},
                                                     {8, 128.0 / 130},
                                                     {16, 128.0 / 130},
                                                     {32, 128.0 / 130},
                                                     {64, 236.0 / 256}}};

// "0000:17:00.0": what a path may be made of.
bool is_address(std::string_view text) {
  return text.size() >= 7 && text.size() <= 20 &&
         std::ranges::all_of(text,
                             [](char c) {
                               return std::isxdigit(static_cast<unsigned char>(c)) != 0 ||
                                      c == ':' || c == '.';
                             }) &&
         !text.contains("..");
}

// The number that the file begins with; none if there is no file or no number > 0.
std::optional<double> number_in(const std::string& path) {
  const auto text = read_text_file(path, 4096);
  if (!text) return std::nullopt;
  const double value = std::strtod(text->c_str(), nullptr);  // "32.0 GT/s PCIe", "Unknown", "16"
  return value > 0 ? std::optional(value) : std::nullopt;
}

std::optional<int> lanes_in(const std::string& path) {
  const auto value = number_in(path);
  // A link that is not told reads as 255 lanes.
  return value && *value <= 32 ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

// One line a window: begin, end, flags, hexadecimal; zeros where there is none.
std::optional<std::uint64_t> largest_window(const std::string& text) {
  std::istringstream lines(text);
  std::uint64_t most = 0;
  for (std::string line; std::getline(lines, line);) {
    char* rest = nullptr;
    const std::uint64_t begin = std::strtoull(line.c_str(), &rest, 16);
    const std::uint64_t end = std::strtoull(rest, nullptr, 16);
    if (end > begin) most = std::max(most, end - begin + 1);
  }
  return most > 0 ? std::optional(most) : std::nullopt;
}

}  // namespace

Result<PciLink> read_pci_link(std::string_view address, const std::string& root) {
  if (!is_address(address)) {
    return fail(ErrorCode::kInvalidArgument, "no PCI address: '" + std::string(address) + "'");
  }
  std::string name(address);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string folder = root + "/sys/bus/pci/devices/" + name + "/";
  const auto resource = read_text_file(folder + "resource", 65'536);
  if (!resource) return std::unexpected(resource.error());
  PciLink link;
  link.window_bytes = largest_window(*resource);
  link.speed = number_in(folder + "current_link_speed");
  link.most_speed = number_in(folder + "max_link_speed");
  link.width = lanes_in(folder + "current_link_width");
  link.most_width = lanes_in(folder + "max_link_width");
  if (const auto text = read_text_file(folder + "numa_node", 64)) {
    const int node = std::atoi(text->c_str());  // -1: the firmware does not say
    if (node >= 0) link.numa_node = node;
  }
  return link;
}

std::optional<int> pci_generation(double speed) {
  for (std::size_t i = 0; i < kGenerations.size(); ++i) {
    if (kGenerations[i].speed == speed) return static_cast<int>(i) + 1;
  }
  return std::nullopt;
}

double pci_gb_s(double speed, int width) {
  const auto known = pci_generation(speed);
  const double carried = known ? kGenerations[static_cast<std::size_t>(*known) - 1].carried : 0.9;
  return speed * carried * width / 8;
}

std::optional<int> numa_distance(int from, int to, const std::string& root) {
  const auto text = read_text_file(
      root + "/sys/devices/system/node/node" + std::to_string(from) + "/distance", 65'536);
  if (!text || to < 0) return std::nullopt;
  std::istringstream numbers(*text);
  int distance = 0;
  for (int i = 0; numbers >> distance; ++i) {
    if (i == to) return distance;
  }
  return std::nullopt;
}

std::optional<int> numa_node_here() {
  unsigned cpu = 0, node = 0;
  if (::getcpu(&cpu, &node) != 0) return std::nullopt;
  return static_cast<int>(node);
}

}  // namespace orlop
