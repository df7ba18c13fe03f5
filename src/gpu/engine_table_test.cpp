// SPDX-License-Identifier: Apache-2.0
#include "gpu/engine_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace orlop::gpu {
namespace {

using testing::HasSubstr;

const EngineTableKey kKey{
    .device = "NVIDIA H200", .uuid = "00112233445566778899aabbccddeeff", .driver = "13.0"};

EngineTable some_table() {
  return {{{CopyDirection::kBackup, false, 0, 0, EngineKind::kDirect},
           {CopyDirection::kBackup, false, 4096, 1 << 20, EngineKind::kStaged},
           {CopyDirection::kRestore, true, 262'144, std::uint64_t{1} << 40, EngineKind::kPieces}}};
}

class EngineTableFile : public testing::Test {
 protected:
  EngineTableFile() {
    std::string name = testing::TempDir() + "engine_table_XXXXXX";
    folder_ = ::mkdtemp(name.data());
    path_ = folder_ / "orlop" / "gpu.json";
  }
  ~EngineTableFile() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& text) {
    std::filesystem::create_directories(path_.parent_path());
    std::ofstream(path_) << text;
  }
  // A file of kKey with this in its list of cells.
  void write_cells(const std::string& cells) {
    write(R"({"format": 1, "device": "NVIDIA H200", "uuid": "00112233445566778899aabbccddeeff",)"
          R"( "driver": "13.0", "cells": )" +
          cells + "}");
  }
  void expect_corrupt(const std::string& what) {
    const auto table = load_engine_table(path_, kKey);
    ASSERT_FALSE(table) << what;
    EXPECT_EQ(table.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(table.error().message, HasSubstr(path_.string()));
    EXPECT_THAT(table.error().message, HasSubstr(what));
    EXPECT_THAT(table.error().message, HasSubstr("--calibrate"));
  }

  std::filesystem::path folder_, path_;
};

TEST_F(EngineTableFile, What_is_saved_is_loaded) {
  ASSERT_TRUE(save_engine_table(path_, kKey, some_table()));
  const auto table = load_engine_table(path_, kKey);
  ASSERT_TRUE(table);
  ASSERT_TRUE(*table);
  EXPECT_EQ(**table, some_table());
  EXPECT_FALSE(std::filesystem::exists(path_.string() + ".new"));
}

TEST_F(EngineTableFile, A_later_table_takes_the_place_of_an_earlier_one) {
  ASSERT_TRUE(save_engine_table(path_, kKey, default_engine_table()));
  ASSERT_TRUE(save_engine_table(path_, kKey, some_table()));
  EXPECT_EQ(**load_engine_table(path_, kKey), some_table());
}

TEST_F(EngineTableFile, No_file_is_no_table) {
  const auto table = load_engine_table(path_, kKey);
  ASSERT_TRUE(table);
  EXPECT_FALSE(*table);
}

TEST_F(EngineTableFile, Measurements_of_another_device_or_driver_do_not_count) {
  ASSERT_TRUE(save_engine_table(path_, kKey, some_table()));
  EngineTableKey other = kKey;
  other.uuid[0] = 'f';
  EXPECT_FALSE(load_engine_table(path_, other)->has_value());
  other = kKey;
  other.driver = "13.1";
  EXPECT_FALSE(load_engine_table(path_, other)->has_value());
  other = kKey;
  other.device = "NVIDIA H100";
  EXPECT_FALSE(load_engine_table(path_, other)->has_value());
}

TEST_F(EngineTableFile, Another_format_does_not_count) {
  write(R"({"format": 2, "device": "NVIDIA H200", "uuid": "00112233445566778899aabbccddeeff",)"
        R"( "driver": "13.0", "cells": []})");
  const auto table = load_engine_table(path_, kKey);
  ASSERT_TRUE(table);
  EXPECT_FALSE(*table);
}

TEST_F(EngineTableFile, Damage_is_told_with_file_and_place) {
  const std::string good =
      R"({"direction": "backup", "adjacent": true, "piece_bytes": 0, "batch_bytes": 0,)"
      R"( "engine": "staged"})";
  write_cells("[" + good + "]");
  ASSERT_TRUE(load_engine_table(path_, kKey)) << "the good cell is good";

  for (const char* text : {"", "{", "[]", "7", "\"cells\"", R"({"cells": 3})", "{}"}) {
    write(text);
    expect_corrupt("not a table of engines");
  }
  for (const std::string wrong :
       {"5", "null", R"({"direction": "sideways", "engine": "staged"})",
        R"({"direction": "backup", "engine": "warp"})", R"({"direction": "backup"})",
        R"({"direction": "backup", "engine": "host"})"}) {
    write_cells("[" + good + ", " + wrong + "]");
    expect_corrupt("cell 1 is not one");
  }
  write_cells(R"([{"direction": "backup", "engine": "staged", "piece_bytes": "many"}])");
  expect_corrupt("must be number");
}

TEST_F(EngineTableFile, Half_of_a_file_is_damage_at_every_length) {
  ASSERT_TRUE(save_engine_table(path_, kKey, some_table()));
  const std::size_t size = std::filesystem::file_size(path_);
  // The last byte is the end of the line.
  for (std::size_t keep = size - 2; keep > 0; --keep) {
    std::filesystem::resize_file(path_, keep);
    ASSERT_FALSE(load_engine_table(path_, kKey)) << keep << " of " << size << " bytes";
  }
}

TEST_F(EngineTableFile, A_folder_that_cannot_be_made_is_told) {
  std::ofstream(folder_ / "orlop") << "a file where the folder should be";
  const Result<void> saved = save_engine_table(path_, kKey, some_table());
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, ErrorCode::kSystem);
  EXPECT_THAT(saved.error().message, HasSubstr(path_.string()));
}

TEST(EngineTable, Chooses_the_largest_piece_and_then_the_largest_batch) {
  const EngineTable table{{{CopyDirection::kRestore, true, 0, 0, EngineKind::kDirect},
                           {CopyDirection::kRestore, true, 0, 1000, EngineKind::kStaged},
                           {CopyDirection::kRestore, true, 500, 100, EngineKind::kPieces}}};
  const auto choose = [&](std::uint64_t piece, std::uint64_t batch) {
    return table.choose(CopyDirection::kRestore, true, piece, batch);
  };
  EXPECT_EQ(choose(1, 999), EngineKind::kDirect);
  EXPECT_EQ(choose(1, 1000), EngineKind::kStaged);
  EXPECT_EQ(choose(499, 5000), EngineKind::kStaged);
  EXPECT_EQ(choose(500, 99), EngineKind::kDirect);
  EXPECT_EQ(choose(500, 100), EngineKind::kPieces);
  EXPECT_EQ(choose(600, 5000), EngineKind::kPieces);
}

TEST(EngineTable, Other_directions_and_placements_have_cells_of_their_own) {
  const EngineTable table{{{CopyDirection::kRestore, true, 0, 0, EngineKind::kDirect}}};
  EXPECT_EQ(table.choose(CopyDirection::kRestore, true, 1, 1), EngineKind::kDirect);
  EXPECT_EQ(table.choose(CopyDirection::kRestore, false, 1, 1), EngineKind::kStaged);
  EXPECT_EQ(table.choose(CopyDirection::kBackup, true, 1, 1), EngineKind::kStaged);
}

TEST(EngineTable, Without_measurements_short_batches_are_direct_and_long_ones_staged) {
  const EngineTable table = default_engine_table();
  for (const CopyDirection direction : {CopyDirection::kBackup, CopyDirection::kRestore}) {
    for (const bool adjacent : {false, true}) {
      EXPECT_EQ(table.choose(direction, adjacent, 4096, 288 << 10), EngineKind::kDirect);
      EXPECT_EQ(table.choose(direction, adjacent, 4096, 1 << 30), EngineKind::kStaged);
    }
  }
}

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* was = std::getenv(name)) was_ = was;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { was_ ? ::setenv(name_, was_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> was_;
};

TEST(EngineTablePath, Is_in_the_cache_folder_of_the_user) {
  const std::string name = "orlop/gpu-" + kKey.uuid + ".json";
  const Variable home("HOME", "/home/ada");
  {
    const Variable cache("XDG_CACHE_HOME", "/var/cache/ada");
    EXPECT_EQ(engine_table_path(kKey), "/var/cache/ada/" + name);
  }
  const Variable relative("XDG_CACHE_HOME", "cache");  // not allowed by the XDG specification
  EXPECT_EQ(engine_table_path(kKey), "/home/ada/.cache/" + name);
}

TEST(EngineTablePath, Is_none_without_a_folder) {
  const Variable home("HOME", nullptr), cache("XDG_CACHE_HOME", nullptr);
  EXPECT_EQ(engine_table_path(kKey), std::nullopt);
}

}  // namespace
}  // namespace orlop::gpu
