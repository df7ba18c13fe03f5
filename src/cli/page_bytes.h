// SPDX-License-Identifier: Apache-2.0
// What `demo` and `replay` store: pages whose every byte follows from the page's key, so that a
// reader can tell right from wrong without having seen the writer.
//
//   bytes 0..15   the key            (a page stored under another key is found out)
//   bytes 16..19  the writer's id    (who wrote it: hits across workers are counted by it)
//   bytes 20..23  a constant
//   bytes 24..    a sequence that starts at a mix of the key; two pages with different keys differ
//                 in every whole word of it, and no shift of one page is another page
//
// Pure; any thread.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

namespace orlop::cli {

// The key of a page as our workloads make it: 128 bits. text() is what goes to the node.
struct PageKey {
  std::uint64_t lo = 0;
  std::uint64_t hi = 0;
  constexpr auto operator<=>(const PageKey&) const = default;
  // Borrowed: valid as long as this object.
  std::string_view text() const { return {reinterpret_cast<const char*>(this), sizeof(PageKey)}; }
};
static_assert(sizeof(PageKey) == 16);

inline constexpr std::size_t kPageHeaderBytes = 24;
// Smallest page: the header and one word.
inline constexpr std::size_t kMinPageBytes = 32;

// Requires: page.size() >= kMinPageBytes.
void fill_page(std::span<std::byte> page, const PageKey& key, std::uint32_t writer);

// The writer's id if every byte of the page is what fill_page wrote for this key; none if any byte
// is wrong. Same requirement.
std::optional<std::uint32_t> check_page(std::span<const std::byte> page, const PageKey& key);

}  // namespace orlop::cli

template <>
struct std::hash<orlop::cli::PageKey> {
  // Keys are digests (or trace ids): spread enough by one multiplication.
  std::size_t operator()(const orlop::cli::PageKey& key) const noexcept {
    return (key.lo ^ key.hi) * 0x9e3779b97f4a7c15;
  }
};
