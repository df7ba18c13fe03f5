// SPDX-License-Identifier: Apache-2.0
#include "platform/numa.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "platform/small_file.h"
#include "platform/system_error.h"
#include "platform/text_fields.h"

namespace orlop {
namespace {

std::string list_text(const std::vector<int>& numbers) {
  std::string text;
  for (int n : numbers) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return text;
}

constexpr std::size_t kBitsPerWord = 8 * sizeof(unsigned long);
using NodeMask = std::array<unsigned long, (kMaxNumaNode + 1) / kBitsPerWord>;

NodeMask mask_of(const std::vector<int>& nodes) {
  NodeMask mask{};
  for (int node : nodes) {
    const auto n = static_cast<std::size_t>(node);
    mask[n / kBitsPerWord] |= 1ul << (n % kBitsPerWord);
  }
  return mask;
}

// One line of numa_maps, after its address: sums its "N<node>=<pages>" words.
void add_line(std::string_view line, std::map<int, std::uint64_t>& bytes) {
  std::map<int, std::uint64_t> pages;
  std::uint64_t page_bytes = 4096;
  while (!line.empty()) {
    const std::string_view word = take_until(line, ' ');
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = word.substr(0, equals);
    const auto value = to_number(word.substr(equals + 1));
    if (!value) continue;
    if (name == "kernelpagesize_kB") page_bytes = *value * 1024;
    if (name.size() < 2 || name[0] != 'N') continue;
    const auto node = to_number(name.substr(1));
    if (node && *node <= kMaxNumaNode) pages[static_cast<int>(*node)] += *value;
  }
  for (const auto& [node, count] : pages) bytes[node] += count * page_bytes;
}

}  // namespace

Result<NumaPolicy> parse_numa_policy(std::string_view text) {
  if (text == "default") return NumaPolicy{};
  if (text == "interleave") return NumaPolicy{NumaPolicy::Kind::kInterleave, 0};
  if (text.starts_with("node:")) {
    const auto node = to_number(text.substr(5));
    if (node && *node <= kMaxNumaNode) {
      return NumaPolicy{NumaPolicy::Kind::kNode, static_cast<int>(*node)};
    }
  }
  return fail(ErrorCode::kInvalidArgument,
              "'" + std::string(text) +
                  "' is not known; write default, interleave or node:N (N from 0 to 1023)");
}

Result<std::vector<int>> parse_number_list(std::string_view text) {
  const auto bad = [&] {
    return fail(ErrorCode::kInvalidArgument,
                "'" + std::string(text.substr(0, 100)) + "' is not a list like 0-3,8");
  };
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  std::vector<int> numbers;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view part = take_until(rest, ',');
    const std::size_t dash = part.find('-');
    const auto first = to_number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : to_number(part.substr(dash + 1));
    if (!first || !last || *first > *last || *last > kMaxNumaNode) return bad();
    for (std::uint64_t n = *first; n <= *last; ++n) numbers.push_back(static_cast<int>(n));
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

Result<std::vector<int>> numa_nodes(const std::string& root) {
  auto text = read_text_file(root + "/sys/devices/system/node/has_memory");
  // No such folder: a kernel without NUMA, where all memory is node 0.
  if (!text) return std::vector<int>{0};
  auto nodes = parse_number_list(*text);
  if (nodes && nodes->empty()) return std::vector<int>{0};
  return nodes;
}

Result<void> bind(const Mapping& mapping, const NumaPolicy& policy) {
  if (policy.kind == NumaPolicy::Kind::kDefault) return {};
  auto nodes = numa_nodes();
  if (!nodes) return std::unexpected(nodes.error());
  const bool one = policy.kind == NumaPolicy::Kind::kNode;
  if (one && std::find(nodes->begin(), nodes->end(), policy.node) == nodes->end()) {
    return fail(ErrorCode::kInvalidArgument, "memory.numa = node:" + std::to_string(policy.node) +
                                                 ": this machine has memory on node " +
                                                 list_text(*nodes) + " only");
  }
  const NodeMask mask = mask_of(one ? std::vector<int>{policy.node} : *nodes);
  const int mode = one ? MPOL_BIND : MPOL_INTERLEAVE;
  // The kernel takes the number of bits plus one (it ignores the last).
  const long rc = ::syscall(SYS_mbind, mapping.data(), mapping.size(), mode, mask.data(),
                            static_cast<unsigned long>(kMaxNumaNode) + 2, 0u);
  if (rc == 0) return {};
  // Without NUMA in the kernel there is one node and nothing to choose.
  if (errno == ENOSYS && nodes->size() == 1) return {};
  return system_failure("mbind", errno,
                        errno == EPERM    ? "allow mbind in the container's seccomp profile "
                                            "(CAP_SYS_NICE), or set memory.numa = default"
                        : errno == EINVAL ? "the cpuset of this process excludes the node; set "
                                            "memory.numa = default"
                                          : "");
}

std::map<int, std::uint64_t> parse_numa_maps(std::string_view text, std::uint64_t start,
                                             std::uint64_t end) {
  std::map<int, std::uint64_t> bytes;
  std::string_view containing;  // the last line that begins before start
  bool any = false;
  while (!text.empty()) {
    std::string_view line = take_until(text, '\n');
    const auto address = to_number(take_word(line), 16);
    if (!address) continue;
    if (*address < start) containing = line;
    if (*address < start || *address >= end) continue;
    add_line(line, bytes);
    any = true;
  }
  if (!any) add_line(containing, bytes);
  return bytes;
}

Result<std::map<int, std::uint64_t>> bytes_by_node(const Mapping& mapping) {
  auto text = read_text_file("/proc/self/numa_maps");
  if (!text) return std::unexpected(text.error());
  const auto start = reinterpret_cast<std::uint64_t>(mapping.data());
  return parse_numa_maps(*text, start, start + mapping.size());
}

}  // namespace orlop
