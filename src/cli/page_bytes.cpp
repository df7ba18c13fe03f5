// SPDX-License-Identifier: Apache-2.0
#include "cli/page_bytes.h"

#include <cstring>

#include "base/check.h"
#include "base/rng.h"

namespace orlop::cli {
namespace {

constexpr std::uint32_t kHeaderMark = 0x50414745;  // "PAGE"

struct Header {
  PageKey key;
  std::uint32_t writer = 0;
  std::uint32_t mark = kHeaderMark;
};
static_assert(sizeof(Header) == kPageHeaderBytes);

// One addition, shift and xor a word: as fast as the copy itself, so that the workload measures the
// cache and not its own generator. x -> x ^ (x >> 31) is a bijection, hence "differ in every word".
struct Sequence {
  std::uint64_t state;
  explicit Sequence(const PageKey& key) {
    std::uint64_t mixed = key.lo;
    state = splitmix64(mixed);
    mixed ^= key.hi;
    state ^= splitmix64(mixed);
  }
  std::uint64_t next() {
    state += 0x9e3779b97f4a7c15;
    return state ^ (state >> 31);
  }
};

}  // namespace

void fill_page(std::span<std::byte> page, const PageKey& key, std::uint32_t writer) {
  CHECK(page.size() >= kMinPageBytes);
  const Header header{key, writer};
  std::memcpy(page.data(), &header, sizeof header);
  Sequence sequence(key);
  std::byte* at = page.data() + sizeof header;
  std::size_t left = page.size() - sizeof header;
  for (; left >= 8; left -= 8, at += 8) {
    const std::uint64_t word = sequence.next();
    std::memcpy(at, &word, 8);
  }
  const std::uint64_t last = sequence.next();
  std::memcpy(at, &last, left);
}

std::optional<std::uint32_t> check_page(std::span<const std::byte> page, const PageKey& key) {
  CHECK(page.size() >= kMinPageBytes);
  Header header;
  std::memcpy(&header, page.data(), sizeof header);
  Sequence sequence(key);
  const std::byte* at = page.data() + sizeof header;
  std::size_t left = page.size() - sizeof header;
  std::uint64_t different = 0;  // no early exit: right pages are the rule, and this vectorises
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    different |= word ^ sequence.next();
  }
  const std::uint64_t last = sequence.next();
  const bool tail_right = std::memcmp(at, &last, left) == 0;
  if (different != 0 || !tail_right || header.mark != kHeaderMark || header.key != key) {
    return std::nullopt;
  }
  return header.writer;
}

}  // namespace orlop::cli
