// SPDX-License-Identifier: Apache-2.0
#include "protocol/attach/keeper_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/rng.h"

namespace orlop::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

LedgerFrame ledger() {
  LedgerFrame frame;
  frame.segment = SegmentId{5};
  frame.served = true;
  frame.next_client = 9;
  frame.server = 4;
  frame.clients = {{ClientId{3}, 77, 4711, {}, "w"}, {ClientId{8}, 78, 4712, {}, ""}};
  return frame;
}
// Exactly what the ledger names.
std::vector<std::string> names() {
  std::vector<std::string> out = {"orlop-ledger", "orlop-control", "orlop-value", "orlop-server-4"};
  for (const std::uint32_t client : {3u, 8u}) {
    for (const std::string& name : stored_names_of(ClientId{client})) out.push_back(name);
  }
  return out;
}

TEST(StoredNames, Areas_are_let_go_of_first) {
  EXPECT_THAT(
      areas_first({"orlop-client-3-memory", "orlop-control", "orlop-ledger", "orlop-value"}),
      ElementsAre("orlop-control", "orlop-value", "orlop-client-3-memory", "orlop-ledger"));
}

TEST(JudgeStore, Everything_there_is_taken_over) {
  const auto adoption = judge_store(ledger(), names());
  ASSERT_TRUE(adoption) << adoption.error().message;
  EXPECT_EQ(adoption->next_client, 9u);
  EXPECT_EQ(adoption->last_server, 4u);
  EXPECT_THAT(adoption->servers, ElementsAre("orlop-server-4"));
  EXPECT_THAT(adoption->leftover, ElementsAre("orlop-server-4"));
}

TEST(JudgeStore, Any_one_missing_is_refused_by_name) {
  const std::vector<std::string> all = names();
  for (const std::string& missing : all) {
    std::vector<std::string> rest = all;
    std::erase(rest, missing);
    const auto adoption = judge_store(ledger(), rest);
    ASSERT_FALSE(adoption) << missing;
    EXPECT_THAT(adoption.error().message, HasSubstr(missing));
  }
}

TEST(JudgeStore, Any_one_twice_is_refused) {
  for (const std::string& twice : names()) {
    std::vector<std::string> all = names();
    all.push_back(twice);
    EXPECT_FALSE(judge_store(ledger(), all)) << twice;
  }
}

TEST(JudgeStore, Leftovers_are_let_go_of_and_their_numbers_not_used_again) {
  std::vector<std::string> all = names();
  all.insert(all.end(), {"orlop-client-12-memory", "orlop-client-5-process", "orlop-server-6",
                         "http", "stored"});
  const auto adoption = judge_store(ledger(), all);
  ASSERT_TRUE(adoption) << adoption.error().message;
  EXPECT_EQ(adoption->next_client, 13u);
  EXPECT_EQ(adoption->last_server, 6u);
  EXPECT_THAT(adoption->servers, ElementsAre("orlop-server-4", "orlop-server-6"));
  EXPECT_EQ(adoption->leftover.size(), 4u);
}

// Found by tests/fuzz/keeper_store.cpp: the next server would have had number 0, "there was none".
TEST(JudgeStore, Last_of_all_server_numbers_is_refused) {
  std::vector<std::string> all = names();
  all.push_back(stored_name_of_server(0xfffffffe));
  EXPECT_EQ(judge_store(ledger(), all).value().last_server, 0xfffffffe);
  all.back() = stored_name_of_server(0xffffffff);
  EXPECT_EQ(judge_store(ledger(), all).error().code, ErrorCode::kCorrupt);
}

TEST(JudgeStore, What_contradicts_itself_is_refused) {
  LedgerFrame unserved = ledger();
  unserved.served = false;
  EXPECT_FALSE(judge_store(unserved, names()));
  LedgerFrame future = ledger();
  future.next_client = 8;
  EXPECT_FALSE(judge_store(future, names()));
  LedgerFrame twice = ledger();
  twice.clients[1].client = ClientId{3};
  EXPECT_FALSE(judge_store(twice, names()));
  for (const char* unknown : {"orlop-board", "orlop-client-x", "orlop-client-0-memory",
                              "orlop-server-", "orlop-server-4x"}) {
    std::vector<std::string> all = names();
    all.push_back(unknown);
    EXPECT_FALSE(judge_store(ledger(), all)) << unknown;
  }
  EXPECT_EQ(judge_store(ledger(), {"http"}).error().code, ErrorCode::kNoNode);
}

TEST(JudgeStore, Ledger_whose_next_client_would_be_none_is_refused) {
  LedgerFrame frame = ledger();
  frame.clients.clear();
  frame.next_client = 0;
  std::vector<std::string> left = {std::string(kStoredLedger), std::string(kStoredControl),
                                   std::string(kStoredValue)};
  if (frame.server != 0) left.push_back(stored_name_of_server(frame.server));
  EXPECT_THAT(judge_store(frame, left).error().message, HasSubstr("next client id is 0"));
  frame.next_client = 1;
  EXPECT_TRUE(judge_store(frame, left));
}

struct Memory {
  alignas(8) std::array<std::byte, LedgerPages::kBytes> bytes{};
};

TEST(LedgerPages, Latest_write_is_read) {
  auto memory = std::make_unique<Memory>();
  LedgerPages pages(memory->bytes);
  EXPECT_FALSE(pages.read());
  for (std::uint32_t next = 9; next < 14; ++next) {
    LedgerFrame frame = ledger();
    frame.next_client = next;
    pages.write(frame);
    const auto read = LedgerPages(memory->bytes).read();
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->next_client, next);
    EXPECT_EQ(read->clients.size(), 2u);
  }
  pages.make_void();
  EXPECT_THAT(pages.read().error().message, HasSubstr("gave up"));
}

// A keeper killed between any two stores of a write leaves the frame before.
TEST(LedgerPages, Write_cut_anywhere_leaves_the_frame_before) {
  auto before = std::make_unique<Memory>();
  LedgerPages(before->bytes).write(ledger());
  auto after = std::make_unique<Memory>(*before);
  LedgerFrame changed = ledger();
  changed.next_client = 10;
  LedgerPages(after->bytes).write(changed);
  Rng rng(1);
  for (int round = 0; round < 500; ++round) {
    // Any set of the write's stores may have happened, except its last one, of `current`.
    auto cut = std::make_unique<Memory>(*after);
    std::memcpy(cut->bytes.data() + 8, before->bytes.data() + 8, 8);
    const std::size_t from = rng.uniform(LedgerPages::kBytes / 8) * 8;
    const std::size_t to = from + 8 * rng.uniform((LedgerPages::kBytes - from) / 8);
    std::memcpy(cut->bytes.data() + from, before->bytes.data() + from, to - from);
    const auto read = LedgerPages(cut->bytes).read();
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->next_client, 9u);
  }
}

TEST(LedgerPages, Scribbled_memory_is_refused) {
  auto memory = std::make_unique<Memory>();
  LedgerPages(memory->bytes).write(ledger());
  const std::size_t in_copy = kPageBytes + kMaxFrameBytes + 40;
  memory->bytes[in_copy] ^= std::byte{1};
  EXPECT_THAT(LedgerPages(memory->bytes).read().error().message, HasSubstr("checksum"));
  memory->bytes[0] ^= std::byte{1};
  EXPECT_THAT(LedgerPages(memory->bytes).read().error().message, HasSubstr("never written"));
}

}  // namespace
}  // namespace orlop::protocol
