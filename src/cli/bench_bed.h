// SPDX-License-Identifier: Apache-2.0
// What most groups of `orlop bench` stand on: a node of their own with a client in this process,
// filled with pages of 4 KiB of which no byte is ever written.
// Thread: main's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/page_bytes.h"
#include "cli/private_node.h"
#include "cli/worker_process.h"
#include "orlop/client.h"

namespace orlop::cli {

inline constexpr std::uint32_t kBenchValueLen = 4096;

// Key of page i of a series; all different. Series keep fills, writers and rounds apart.
PageKey bench_key(std::uint32_t series, std::uint64_t i);

struct BenchBed {
  PrivateNode node;  // first: outlives the client
  AttachedWorker worker;

  Client& client() { return worker.client; }
  const Namespace& ns() const { return worker.ns; }
};

// A node (memory.touch = off, policy lru) that keeps `slots` pages and evicts beyond them, so that
// `free_slots` stay free; and a client attached to it. Errors: of PrivateNode::start, the attach.
Result<BenchBed> start_bench_bed(std::uint64_t slots, std::uint64_t free_slots);
// The node alone.
Result<PrivateNode> start_bench_node(std::uint64_t slots, std::uint64_t free_slots);
Result<AttachedWorker> attach_bench_client(const std::string& socket, const std::string& name);

// Commits pages first..first+count of the series through the public API, one page a group, without
// touching their memory (PutPlan::set_checksum). Errors: a page that was not stored.
Result<void> fill_untouched(AttachedWorker& worker, std::uint32_t series, std::uint64_t first,
                            std::uint64_t count);

// Keys as the API takes them; borrowed.
std::vector<Key> texts_of(const std::vector<PageKey>& keys);

// Longest wait for one answer of the node in a bench.
inline constexpr Milliseconds kBenchWait{10'000};

}  // namespace orlop::cli
