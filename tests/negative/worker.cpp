// SPDX-License-Identifier: Apache-2.0
#include "worker.h"

#include <algorithm>
#include <utility>

namespace orlop::negative_test {

Keys::Keys(std::size_t count, const std::string& prefix, std::size_t first) {
  for (std::size_t i = 0; i < count; ++i) texts_.push_back(prefix + std::to_string(first + i));
  keys_.assign(texts_.begin(), texts_.end());
}
Keys::Keys(std::vector<std::string> texts) : texts_(std::move(texts)) {
  keys_.assign(texts_.begin(), texts_.end());
}

NamespaceDescriptor descriptor(std::uint32_t value_len, const std::string& model) {
  NamespaceDescriptor d;
  d.engine = "test";
  d.layout = "test-1/flat";
  d.model = model;
  d.revision = "r1";
  d.dtype = "u8";
  d.page_tokens = 16;
  d.value_len = value_len;
  return d;
}

std::vector<std::byte> page_of(Key key, std::uint32_t value_len) {
  std::vector<std::byte> page(value_len);
  std::uint64_t state = std::hash<Key>{}(key);
  for (std::byte& byte : page) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<std::byte>(state >> 56);
  }
  return page;
}

bool all_are(const std::vector<Outcome>& outcomes, Outcome wanted) {
  return !outcomes.empty() &&
         std::all_of(outcomes.begin(), outcomes.end(), [&](Outcome o) { return o == wanted; });
}

ClientOptions Worker::options(const std::string& socket, std::string name,
                              Milliseconds call_budget) {
  ClientOptions options;
  options.socket = socket;
  options.name = std::move(name);
  options.call_budget = call_budget;
  options.ledger_cells = 6'400;
  return options;
}

Worker::Worker(ClientOptions options) : client(std::move(options)) {
  const bool attached = client.wait_ready(kPatience);
  auto opened = client.open_namespace(descriptor());
  if (!opened) {
    last_error_ = opened.error();
    return;
  }
  ns = *opened;
  usable_ = attached && ns.resolved();
}

std::vector<Outcome> Worker::put(std::span<const Key> keys, const PutOptions& options) {
  std::vector<std::vector<std::byte>> pages;
  for (const Key& key : keys) pages.push_back(page_of(key, ns.value_len()));
  const std::vector<std::span<const std::byte>> buffers(pages.begin(), pages.end());
  auto outcomes = client.put(ns, keys, buffers, options);
  if (!outcomes) last_error_ = outcomes.error();
  return outcomes.value_or(std::vector<Outcome>{});
}

Got Worker::get(std::span<const Key> keys) {
  Got got;
  auto handle = client.get_start(ns, keys);
  if (!handle) {
    last_error_ = handle.error();
    return got;
  }
  got.reason = handle->result().reason;
  auto plan = client.get_transfer(*handle);
  if (!plan) {
    last_error_ = plan.error();
    return got;
  }
  got.pages = static_cast<std::uint32_t>(plan->size());
  got.wrong = wrong_pages(*plan, keys);
  return got;
}

std::uint32_t Worker::wrong_pages(ReadPlan& plan, std::span<const Key> keys) {
  std::uint32_t wrong = 0;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const auto bytes = plan.view(i);
    const auto wanted = page_of(keys[i]);
    wrong += std::equal(bytes.begin(), bytes.end(), wanted.begin(), wanted.end()) ? 0 : 1;
  }
  return wrong;
}

}  // namespace orlop::negative_test
