// SPDX-License-Identifier: Apache-2.0
// What libFuzzer calls; part of every target's program.
#include <cstdint>

#include "fuzz_target.h"

namespace orlop::fuzz {

Seed text_seed(std::string name, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {std::move(name), {bytes.begin(), bytes.end()}};
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace orlop::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  orlop::fuzz::run_one({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
