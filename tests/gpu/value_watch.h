// SPDX-License-Identifier: Apache-2.0
// Looks at a node's value memory from a process that is no client of it.
// Thread: one; the looks themselves use as many as the machine has.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "orlop/error.h"
#include "platform/mapping.h"

namespace orlop::gpu_test {

class ValueWatch {
 public:
  // keeper: the pid of orlopd. Maps its value memory by way of /proc. Errors: kSystem (no such
  // descriptor, not permitted).
  static Result<ValueWatch> open(pid_t keeper);

  std::uint64_t bytes() const { return memory_.size(); }
  std::span<std::byte> memory() const { return {memory_.data(), memory_.size()}; }

  // A sum for each MiB, over every byte of it.
  std::vector<std::uint64_t> look() const;
  // One word of every 4 KiB only.
  std::vector<std::uint64_t> glance() const;
  // Where a slot begins with these bytes; null: nowhere.
  std::byte* find(std::span<const std::byte> begin) const;

 private:
  explicit ValueWatch(Mapping memory) : memory_(std::move(memory)) {}
  std::vector<std::uint64_t> sums(std::size_t stride_words) const;

  Mapping memory_;
};

// MiB that differ.
std::size_t differences(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b);

}  // namespace orlop::gpu_test
