// SPDX-License-Identifier: Apache-2.0
#include "workload.h"

#include <algorithm>
#include <functional>

#include "base/check.h"
#include "base/rng.h"

namespace orlop::process_test {

std::vector<std::byte> page_of(const std::string& key) {
  std::vector<std::byte> page(kPageBytesOfWorkload);
  Rng rng(std::hash<std::string>{}(key));
  for (std::byte& one : page) one = static_cast<std::byte>(rng.uniform(256));
  return page;
}

NamespaceDescriptor workload_namespace() {
  NamespaceDescriptor descriptor;
  descriptor.engine = "test";
  descriptor.layout = "flat-1";
  descriptor.model = "m";
  descriptor.revision = "r";
  descriptor.dtype = "u8";
  descriptor.page_tokens = 16;
  descriptor.value_len = kPageBytesOfWorkload;
  return descriptor;
}

std::vector<std::string> page_keys(const std::string& prefix, std::size_t count) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < count; ++i) keys.push_back(prefix + std::to_string(i));
  return keys;
}

std::vector<Key> views_of(const std::vector<std::string>& keys) {
  return {keys.begin(), keys.end()};
}

bool put_pages(Client& client, const Namespace& ns, const std::vector<std::string>& keys) {
  std::vector<std::vector<std::byte>> pages;
  std::vector<std::span<const std::byte>> buffers;
  for (const std::string& key : keys) pages.push_back(page_of(key));
  for (const auto& page : pages) buffers.emplace_back(page);
  const auto outcomes = client.put(ns, views_of(keys), buffers);
  return outcomes && std::ranges::all_of(*outcomes, [](Outcome one) {
           return one == Outcome::kStored || one == Outcome::kExists;
         });
}

Workload::Workload(const std::string& socket) : client_({.socket = socket, .name = "workload"}) {
  thread_ = std::thread([this] { run(); });
}

void Workload::stop() {
  over_ = true;
  if (thread_.joinable()) thread_.join();
}

void Workload::run() {
  const auto ns = client_.open_namespace(workload_namespace());
  CHECK(ns.has_value(), "namespace");
  for (std::uint64_t round = 0; !over_; ++round) {
    const auto keys = page_keys("round-" + std::to_string(round % 50) + "-", 4);
    if (put_pages(client_, *ns, keys)) ++stored_;
    auto handle = client_.get_start(*ns, views_of(keys));
    if (!handle) continue;
    auto plan = client_.get_transfer(*handle);
    if (!plan) continue;
    for (std::size_t i = 0; i < plan->size(); ++i) {
      const auto view = plan->view(i);
      ++hits_;
      if (!view.empty() && !std::ranges::equal(view, page_of(keys[i]))) ++wrong_;
    }
  }
}

}  // namespace orlop::process_test
