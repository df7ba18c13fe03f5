// SPDX-License-Identifier: Apache-2.0
#include "value_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/bytes.h"
#include "base/check.h"
#include "platform/process.h"

namespace orlop::gpu_test {
namespace {

constexpr std::size_t kWordsOfMib = kMiB / sizeof(std::uint64_t);

// Of one MiB that others write meanwhile.
std::uint64_t sum_of(const std::byte* begin, std::size_t stride_words) {
  const volatile auto* words = reinterpret_cast<const volatile std::uint64_t*>(begin);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kWordsOfMib; i += stride_words)
    sum = sum * 0x9e3779b97f4a7c15 + words[i];
  return sum;
}

}  // namespace

Result<ValueWatch> ValueWatch::open(pid_t keeper) {
  const std::string folder = "/proc/" + std::to_string(keeper) + "/fd";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    std::error_code unreadable;
    const auto target = std::filesystem::read_symlink(entry.path(), unreadable).string();
    if (!target.contains("memfd:orlop-value")) continue;
    const FileDescriptor file(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
    const off_t bytes = file ? ::lseek(file.get(), 0, SEEK_END) : -1;
    if (bytes <= 0) break;
    CHECK(static_cast<std::uint64_t>(bytes) % kMiB == 0);
    auto memory = Mapping::map({.fd = file.get(),
                                .bytes = static_cast<std::uint64_t>(bytes),
                                .access = Access::kReadWrite});
    if (!memory) return std::unexpected(memory.error());
    return ValueWatch(std::move(*memory));
  }
  return fail(ErrorCode::kSystem, "no value memory that may be opened in " + folder);
}

std::vector<std::uint64_t> ValueWatch::sums(std::size_t stride_words) const {
  std::vector<std::uint64_t> out(bytes() / kMiB);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < out.size(); i = next++)
      out[i] = sum_of(memory_.data() + i * kMiB, stride_words);
  };
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < std::min(cpu_count(), 16u); ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  return out;
}

std::vector<std::uint64_t> ValueWatch::look() const {
  return sums(1);
}
std::vector<std::uint64_t> ValueWatch::glance() const {
  return sums(4096 / sizeof(std::uint64_t));
}

std::byte* ValueWatch::find(std::span<const std::byte> begin) const {
  for (std::uint64_t at = 0; at + begin.size() <= bytes(); at += 4096) {
    if (std::memcmp(memory_.data() + at, begin.data(), begin.size()) == 0)
      return memory_.data() + at;
  }
  return nullptr;
}

std::size_t differences(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b) {
  CHECK(a.size() == b.size());
  std::size_t out = 0;
  for (std::size_t i = 0; i < a.size(); ++i) out += a[i] != b[i] ? 1 : 0;
  return out;
}

}  // namespace orlop::gpu_test
