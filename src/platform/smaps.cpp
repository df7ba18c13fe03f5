// SPDX-License-Identifier: Apache-2.0
#include "platform/smaps.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "platform/small_file.h"
#include "platform/system_error.h"
#include "platform/text_fields.h"

namespace orlop {
namespace {

struct Field {
  std::string_view label;
  std::uint64_t SmapsTotals::* member;
};
constexpr std::array kFields = {
    Field{"Size", &SmapsTotals::size},
    Field{"Rss", &SmapsTotals::rss},
    Field{"Pss", &SmapsTotals::pss},
    Field{"Shared_Clean", &SmapsTotals::shared_clean},
    Field{"Shared_Dirty", &SmapsTotals::shared_dirty},
    Field{"Private_Clean", &SmapsTotals::private_clean},
    Field{"Private_Dirty", &SmapsTotals::private_dirty},
    Field{"Anonymous", &SmapsTotals::anonymous},
    Field{"Swap", &SmapsTotals::swap},
    Field{"AnonHugePages", &SmapsTotals::anonymous_huge},
    Field{"ShmemPmdMapped", &SmapsTotals::shmem_pmd_mapped},
    Field{"FilePmdMapped", &SmapsTotals::file_pmd_mapped},
    Field{"Shared_Hugetlb", &SmapsTotals::shared_hugetlb},
    Field{"Private_Hugetlb", &SmapsTotals::private_hugetlb},
};

// "557c8ce67000-557c8ce69000 r--p 00000000 fe:00 1234   /usr/bin/cat"
std::optional<SmapsEntry> parse_header(std::string_view line) {
  const std::string_view range = take_word(line);
  const std::size_t dash = range.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto start = to_number(range.substr(0, dash), 16);
  const auto end = to_number(range.substr(dash + 1), 16);
  if (!start || !end || *start >= *end) return std::nullopt;
  SmapsEntry entry;
  entry.start = *start;
  entry.end = *end;
  entry.permissions = take_word(line);
  for (int skipped = 0; skipped < 3; ++skipped) take_word(line);  // offset, device, inode
  const std::size_t name = line.find_first_not_of(' ');
  entry.name = name == std::string_view::npos ? "[anonymous]" : std::string(line.substr(name));
  return entry;
}

void parse_field(std::string_view line, SmapsEntry& entry) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string_view label = line.substr(0, colon);
  line.remove_prefix(colon + 1);
  if (label == "VmFlags") {
    for (std::string_view flag = take_word(line); !flag.empty(); flag = take_word(line)) {
      entry.dont_fork |= flag == "dc";
      entry.wipe_on_fork |= flag == "wf";
    }
    return;
  }
  const auto kib = to_number(take_word(line), 10);
  if (!kib) return;
  if (label == "KernelPageSize") entry.kernel_page_size = *kib * 1024;
  for (const Field& field : kFields) {
    if (field.label == label) entry.totals.*field.member = *kib * 1024;
  }
}

}  // namespace

SmapsTotals& SmapsTotals::operator+=(const SmapsTotals& other) {
  for (const Field& field : kFields) this->*field.member += other.*field.member;
  return *this;
}

std::vector<SmapsEntry> parse_smaps(std::string_view text) {
  std::vector<SmapsEntry> entries;
  while (!text.empty()) {
    const std::string_view line = take_until(text, '\n');
    if (auto entry = parse_header(line)) {
      entries.push_back(std::move(*entry));
    } else if (!entries.empty()) {
      parse_field(line, entries.back());
    }
  }
  return entries;
}

Result<std::vector<SmapsEntry>> read_smaps(pid_t pid) {
  const std::string path =
      "/proc/" + (pid == 0 ? std::string("self") : std::to_string(pid)) + "/smaps";
  // Asked first, to tell "gone" from "not permitted".
  if (::access(path.c_str(), F_OK) != 0) {
    return system_failure("access(" + path + ")", errno, "the process has ended",
                          ErrorCode::kClosed);
  }
  if (::access(path.c_str(), R_OK) != 0) {
    return system_failure("access(" + path + ")", errno, {}, ErrorCode::kRefused);
  }
  auto text = read_text_file(path);
  if (!text) return std::unexpected(text.error());
  return parse_smaps(*text);
}

std::map<std::string, SmapsTotals> sum_by_name(const std::vector<SmapsEntry>& entries) {
  std::map<std::string, SmapsTotals> sums;
  for (const SmapsEntry& entry : entries) sums[entry.name] += entry.totals;
  return sums;
}

SmapsTotals sum_of(const std::vector<SmapsEntry>& entries) {
  SmapsTotals sum;
  for (const SmapsEntry& entry : entries) sum += entry.totals;
  return sum;
}

}  // namespace orlop
