// SPDX-License-Identifier: Apache-2.0
// An engine at work while its node is replaced: puts pages, reads them back, compares every byte.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "orlop/client.h"

namespace orlop::process_test {

inline constexpr std::size_t kPageBytesOfWorkload = 4096;

// Bytes of a page, from its key alone.
std::vector<std::byte> page_of(const std::string& key);
NamespaceDescriptor workload_namespace();
// Puts pages and waits; true if all are stored (or were).
bool put_pages(Client& client, const Namespace& ns, const std::vector<std::string>& keys);
std::vector<std::string> page_keys(const std::string& prefix, std::size_t count);
std::vector<Key> views_of(const std::vector<std::string>& keys);

class Workload {
 public:
  // With a client of its own; runs from now on.
  explicit Workload(const std::string& socket);
  ~Workload() { stop(); }
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;
  void stop();

  std::uint64_t hits() const { return hits_; }
  std::uint64_t stored() const { return stored_; }
  std::uint64_t wrong() const { return wrong_; }  // pages whose bytes were not their own
  std::uint64_t segment() const { return client_.segment_id(); }
  std::uint64_t resumes() const { return client_.stats().resumes; }
  std::uint64_t attaches() const { return client_.stats().attaches; }

 private:
  void run();

  Client client_;
  std::atomic<bool> over_{false};
  std::atomic<std::uint64_t> hits_{0}, stored_{0}, wrong_{0};
  std::thread thread_;
};

}  // namespace orlop::process_test
