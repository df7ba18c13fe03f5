// SPDX-License-Identifier: Apache-2.0
// The C++ side of plan_overhead.py: plans and releases the same pages with the same client library.
//
//   plan_overhead SOCKET DESCRIPTOR_JSON PAGES
// Reads lines from standard input: "N" measures N plan + release and answers with the microseconds
// of each, space separated, on one line; end of input ends it. Keys: 32 bytes, the page's number in
// little-endian, then zeroes.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "orlop/client.h"

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void die(const std::string& text) {
  std::fprintf(stderr, "plan_overhead: %s\n", text.c_str());
  std::exit(1);
}

double plan_and_release(orlop::Client& client, const orlop::Namespace& ns,
                        const std::vector<orlop::Key>& keys) {
  const auto start = Clock::now();
  auto handle = client.get_start(ns, keys);
  if (!handle) die(handle.error().message);
  auto plan = client.get_transfer(*handle);
  if (!plan) die(plan.error().message);
  if (plan->size() != keys.size()) die("the pages are not all there");
  if (auto released = client.release_views(*plan); !released) die(released.error().message);
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

int run(const std::string& socket, const std::string& json, std::uint64_t pages) {
  orlop::Client client({.socket = socket, .name = "plan_overhead"});
  if (!client.wait_ready(orlop::Milliseconds(30'000))) die(client.last_attach_error().message);
  const auto descriptor = orlop::parse_descriptor(json);
  if (!descriptor) die(descriptor.error().message);
  const auto ns = client.open_namespace(*descriptor);
  if (!ns) die(ns.error().message);
  std::vector<std::array<char, 32>> bytes(pages);
  std::vector<orlop::Key> keys;
  for (std::uint64_t i = 0; i < pages; ++i) {
    std::memcpy(bytes[i].data(), &i, sizeof(i));
    keys.emplace_back(bytes[i].data(), bytes[i].size());
  }
  std::array<char, 32> line{};
  while (std::fgets(line.data(), line.size(), stdin) != nullptr) {
    for (long left = std::strtol(line.data(), nullptr, 10); left > 0; --left)
      std::printf("%.3f ", plan_and_release(client, *ns, keys));
    std::printf("\n");
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) die("usage: plan_overhead SOCKET DESCRIPTOR_JSON PAGES");
  return run(argv[1], argv[2], std::strtoull(argv[3], nullptr, 10));
}
