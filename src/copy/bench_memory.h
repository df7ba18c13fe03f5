// SPDX-License-Identifier: Apache-2.0
// Memory to measure copies on: a private mapping or a shared memory file, every page touched.
#pragma once

#include <cstddef>

#include "orlop/error.h"

namespace orlop {

class BenchMemory {
 public:
  // Errors: kSystem, names the call.
  static Result<BenchMemory> create(std::size_t bytes, bool shared);
  BenchMemory(BenchMemory&& other) noexcept;
  BenchMemory& operator=(BenchMemory&&) = delete;
  ~BenchMemory();

  std::byte* data() const { return data_; }

 private:
  BenchMemory(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  void fill();

  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace orlop
