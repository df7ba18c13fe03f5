// SPDX-License-Identifier: Apache-2.0
// Test support: a node, a client, pages whose bytes follow from their key.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "client/test_node.h"
#include "orlop/client.h"
#include "platform/clock.h"

namespace orlop::client::testing {

inline constexpr std::uint32_t kValueLen = 4096;

inline NamespaceDescriptor descriptor(std::uint32_t value_len = kValueLen,
                                      std::string model = "model") {
  NamespaceDescriptor d;
  d.engine = "test";
  d.layout = "test-1/flat";
  d.model = std::move(model);
  d.revision = "r1";
  d.dtype = "u8";
  d.page_tokens = 16;
  d.value_len = value_len;
  return d;
}

// Keys that live as long as the object, as the calls want them.
class Keys {
 public:
  explicit Keys(std::size_t count, std::string prefix = "k", std::size_t first = 0) {
    for (std::size_t i = 0; i < count; ++i) texts_.push_back(prefix + std::to_string(first + i));
    for (const std::string& text : texts_) keys_.push_back(text);
  }
  operator std::span<const Key>() const { return keys_; }  // NOLINT: a view of itself
  std::span<const Key> first(std::size_t n) const { return std::span(keys_).first(n); }
  std::size_t size() const { return keys_.size(); }
  Key operator[](std::size_t i) const { return keys_[i]; }

 private:
  std::vector<std::string> texts_;
  std::vector<Key> keys_;
};

inline std::vector<std::byte> page_of(Key key, std::uint32_t value_len = kValueLen) {
  std::vector<std::byte> page(value_len);
  std::uint64_t state = std::hash<Key>{}(key);
  for (std::byte& byte : page) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<std::byte>(state >> 56);
  }
  return page;
}

// Polls until it holds; the deadline is far beyond what any machine needs.
inline bool eventually(const std::function<bool()>& holds) {
  const MonoNs deadline = monotonic_ns() + 20 * kNsPerSecond;
  while (!holds()) {
    if (monotonic_ns() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

class ClientTest : public ::testing::Test {
 protected:
  static constexpr Milliseconds kLong{20'000};

  explicit ClientTest(TestNodeOptions node_options = {}, ClientOptions client_options = {})
      : node(std::move(node_options)), client(with_socket(std::move(client_options))) {
    if (!node.running()) return;
    EXPECT_TRUE(client.wait_ready(kLong)) << client.last_attach_error().message;
    open();
  }
  ClientOptions with_socket(ClientOptions options) {
    options.socket = node.socket();
    if (options.name.empty()) options.name = "test";
    if (options.call_budget == ClientOptions{}.call_budget) options.call_budget = kLong;
    return options;
  }
  void open() {
    auto opened = client.open_namespace(descriptor());
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    ns = *opened;
  }
  // Puts pages of these keys; every outcome.
  std::vector<Outcome> put(const Keys& keys, const PutOptions& options = {}) {
    return put_with(client, ns, keys, options);
  }
  static std::vector<Outcome> put_with(Client& by, const Namespace& in, const Keys& keys,
                                       const PutOptions& options = {}) {
    std::vector<std::vector<std::byte>> pages;
    std::vector<std::span<const std::byte>> buffers;
    for (std::size_t i = 0; i < keys.size(); ++i) pages.push_back(page_of(keys[i], in.value_len()));
    for (const auto& page : pages) buffers.push_back(page);
    auto outcomes = by.put(in, keys, buffers, options);
    EXPECT_TRUE(outcomes.has_value()) << outcomes.error().message;
    return outcomes.value_or(std::vector<Outcome>{});
  }
  ReadPlan read(const Keys& keys, const GetOptions& options = {}) {
    auto handle = client.get_start(ns, keys, options);
    EXPECT_TRUE(handle.has_value()) << handle.error().message;
    auto plan = client.get_transfer(*handle);
    EXPECT_TRUE(plan.has_value()) << plan.error().message;
    return std::move(*plan);
  }
  static bool holds_page(ReadPlan& plan, std::size_t i, Key key) {
    const std::span<const std::byte> bytes = plan.view(i);
    const std::vector<std::byte> wanted = page_of(key, static_cast<std::uint32_t>(bytes.size()));
    return !bytes.empty() && std::equal(bytes.begin(), bytes.end(), wanted.begin(), wanted.end());
  }

  TestNode node;
  Client client;
  Namespace ns;
};

}  // namespace orlop::client::testing
