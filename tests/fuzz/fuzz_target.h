// SPDX-License-Identifier: Apache-2.0
// What every fuzz target defines. Each is built in two ways from the same source:
//
//   preset `fuzz`          a libFuzzer program (target_entry.cpp), ASan and UBSan: `./dev fuzz`
//   every other preset     a plain program that runs files (replay_main.cpp): ctest, label `fuzz`
//
// The head comment of a target says what it holds against its inputs: a contract, never only "does
// not crash". A breach is a CHECK.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace orlop::fuzz {

// Runs one input. Nothing of an earlier input may change what it does.
void run_one(std::span<const std::byte> input);

// Inputs made from real messages; corpus/TARGET holds them as files (`--write-seeds`).
struct Seed {
  std::string name;
  std::vector<std::byte> bytes;
};
std::vector<Seed> make_seeds();

// For inputs that are texts.
Seed text_seed(std::string name, std::string_view text);
std::string_view as_text(std::span<const std::byte> bytes);

}  // namespace orlop::fuzz
