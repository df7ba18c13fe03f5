// SPDX-License-Identifier: Apache-2.0
// A target without libFuzzer: runs the seeds as they are made now, then every file of the folders
// that are named, in the order of their names. Any compiler, any preset; this is what ctest runs.
//
//   fuzz_TARGET FOLDER...              the first folder must have files; others may be missing
//   fuzz_TARGET --write-seeds FOLDER   writes the seeds there (after a format has changed)
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "fuzz_target.h"

namespace {

namespace fs = std::filesystem;
using orlop::fuzz::make_seeds;
using orlop::fuzz::run_one;

std::vector<std::byte> read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// Says what runs before it runs: a failed CHECK ends the process.
void run_named(const std::string& name, const std::vector<std::byte>& bytes) {
  std::printf("%s (%zu bytes)\n", name.c_str(), bytes.size());
  std::fflush(stdout);
  // A copy of exactly its size, so that AddressSanitizer sees a read past its end.
  const std::vector<std::byte> exact(bytes.begin(), bytes.end());
  run_one(exact);
}

std::size_t run_folder(const fs::path& folder) {
  std::vector<fs::path> files;
  if (fs::is_directory(folder)) {
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (const fs::path& file : files) run_named(file.string(), read_file(file));
  return files.size();
}

int write_seeds(const fs::path& folder) {
  fs::create_directories(folder);
  for (const auto& seed : make_seeds()) {
    std::ofstream file(folder / seed.name, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(seed.bytes.data()),
               static_cast<std::streamsize>(seed.bytes.size()));
    if (!file) {
      std::fprintf(stderr, "cannot write %s\n", (folder / seed.name).c_str());
      return 1;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 2 && arguments[0] == "--write-seeds") return write_seeds(arguments[1]);
  if (arguments.empty()) {
    std::fprintf(stderr, "usage: %s FOLDER... | --write-seeds FOLDER\n", argv[0]);
    return 2;
  }
  run_named("(empty input)", {});
  for (const auto& seed : make_seeds()) run_named("seed " + seed.name, seed.bytes);
  if (run_folder(arguments[0]) == 0) {
    std::fprintf(stderr, "%s has no files; write some with --write-seeds\n", arguments[0].c_str());
    return 1;
  }
  for (std::size_t i = 1; i < arguments.size(); ++i) run_folder(arguments[i]);
  return 0;
}
