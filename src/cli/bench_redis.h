// SPDX-License-Identifier: Apache-2.0
// A redis-server of our own in a temporary folder, as the reference of the throughput rows, and
// redis-benchmark against it. Debian: packages redis-server and redis-tools.
// Thread: main's (the server follows the thread that started it).
#pragma once

#include <cstdint>
#include <string>

#include "orlop/error.h"
#include "platform/process.h"

namespace orlop::cli {

struct RedisLoad {
  std::uint64_t requests = 0;
  std::uint64_t key_space = 0;
  std::uint32_t value_bytes = 4096;
  std::uint32_t pipeline = 64;
  std::uint32_t clients = 2;
};

class RedisServer {
 public:
  // Unix socket only, allkeys-lru below max_memory bytes, nothing written to disk.
  // Errors: kRefused (not installed: which package), kDeadline (does not serve), kSystem.
  static Result<RedisServer> start(std::uint64_t max_memory);
  RedisServer(RedisServer&& other) noexcept;
  RedisServer& operator=(RedisServer&&) = delete;
  ~RedisServer();  // ends it and removes its folder

  // Requests per second of redis-benchmark's test "SET" or "GET".
  Result<double> benchmark(const std::string& test, const RedisLoad& load) const;

 private:
  RedisServer() = default;
  Result<void> spawn_server(std::uint64_t max_memory);
  Result<void> wait_until_served() const;

  std::string folder_;
  Child child_;
};

}  // namespace orlop::cli
