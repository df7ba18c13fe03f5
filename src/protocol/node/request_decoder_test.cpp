// SPDX-License-Identifier: Apache-2.0
#include "protocol/node/request_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/rng.h"

namespace orlop::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr ClientId kClient{3};
constexpr std::uint32_t kRing = 5;

class DecoderTest : public ::testing::Test {
 protected:
  std::vector<std::byte> arena = std::vector<std::byte>(64 * 1'024);
  DecodeScratch scratch;

  segment::RingMessage message(RequestCode code, std::uint32_t bytes = 2'000) {
    segment::RingMessage m;
    m.code = static_cast<std::uint32_t>(code);
    m.ring_generation = kRing;
    m.request_id = 77;
    m.body_offset = 128;
    m.body_bytes = bytes;
    return m;
  }
  template <class T>
  void write(std::uint64_t at, const T& value) {
    std::memcpy(arena.data() + at, &value, sizeof value);
  }
  Result<DecodedRequest> decode(const segment::RingMessage& m) {
    return decode_request(m, arena, kClient, kRing, scratch);
  }
  std::string refusal(const segment::RingMessage& m) {
    const auto decoded = decode(m);
    if (decoded) return "decoded";
    EXPECT_EQ(decoded.error().code, ErrorCode::kCorrupt);
    return decoded.error().message;
  }
  segment::RingMessage put_start(std::uint32_t keys, std::uint32_t groups, bool parent) {
    auto m = message(RequestCode::kPutStart);
    m.args[0] = make_put_id(kClient, 9).value;
    m.args[1] = 4 | std::uint64_t{keys} << 32;
    m.args[2] = 4'096 | std::uint64_t{groups} << 32;
    m.args[3] = 250;
    m.args[4] = parent ? std::uint64_t{kHasParent} : 0;
    return m;
  }
};

TEST_F(DecoderTest, Put_start_is_copied_out) {
  for (std::uint64_t i = 0; i < 3; ++i) write(128 + 16 * i, KeyId{i, 100 + i});
  write(128 + 48, std::uint32_t{2});
  write(128 + 52, std::uint32_t{1});
  write(128 + 56, KeyId{7, 8});
  const auto decoded = decode(put_start(3, 2, true));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  std::fill(arena.begin(), arena.end(), std::byte{0xff});  // the client scribbles afterwards
  const auto& put = std::get<event::PutStart>(*decoded->event);
  EXPECT_EQ(put.client, kClient);
  EXPECT_EQ(put.request, RequestId{77});
  EXPECT_EQ(put.put, make_put_id(kClient, 9));
  EXPECT_EQ(put.row, NamespaceRow{4});
  EXPECT_EQ(put.value_len, 4'096u);
  EXPECT_EQ(put.wait_budget, 250 * kNsPerUs);
  EXPECT_THAT(put.keys, ElementsAre(KeyId{0, 100}, KeyId{1, 101}, KeyId{2, 102}));
  EXPECT_THAT(put.group_lens, ElementsAre(2u, 1u));
  EXPECT_EQ(put.parent, (KeyId{7, 8}));
  EXPECT_EQ(decoded->answer_offset, 128u + 72u);
  EXPECT_EQ(decoded->answer_room, 2'000u - 72u);
}

TEST_F(DecoderTest, Put_commit_is_copied_out) {
  auto m = message(RequestCode::kPutCommit);
  m.args[0] = 11;
  m.args[1] = 2;
  write(128, CommitEntry{1, 2, 3});
  write(144, CommitEntry{4, 5, 6});
  const auto decoded = decode(m);
  ASSERT_TRUE(decoded.has_value());
  const auto& commit = std::get<event::PutCommit>(*decoded->event);
  ASSERT_EQ(commit.entries.size(), 2u);
  EXPECT_EQ(commit.entries[1].checksum, 6u);
  EXPECT_EQ(commit.put, PutId{11});
}

TEST_F(DecoderTest, Small_requests_are_decoded) {
  auto m = message(RequestCode::kPutAbort);
  m.args[0] = 5;
  EXPECT_EQ(std::get<event::PutAbort>(*decode(m)->event).put, PutId{5});

  m = message(RequestCode::kRemove);
  m.args[0] = 2;
  m.args[1] = 1;
  write(128, KeyId{1, 2});
  const auto removed = decode(m);
  EXPECT_EQ(std::get<event::Remove>(*removed->event).row, NamespaceRow{2});
  EXPECT_THAT(std::get<event::Remove>(*removed->event).keys, ElementsAre(KeyId{1, 2}));

  m = message(RequestCode::kFlush);
  m.args[0] = 6;
  m.args[1] = 1;
  EXPECT_TRUE(std::get<event::Flush>(*decode(m)->event).family);
  EXPECT_EQ(std::get<event::Flush>(*decode(m)->event).row, NamespaceRow{6});

  m = message(RequestCode::kReportMismatch);
  write(128, MismatchReport{{1, 2}, 3, 4, 5, 0});
  EXPECT_EQ(std::get<event::ReportMismatch>(*decode(m)->event).report.slot, 4u);

  m = message(RequestCode::kOpenNamespace);
  m.args[0] = 4;
  std::memcpy(arena.data() + 128, "{\"a\"", 4);
  const auto opened = decode(m);
  EXPECT_EQ(std::get<event::OpenNamespace>(*opened->event).text, "{\"a\"");

  m = message(RequestCode::kDrain);
  m.args[0] = 2;
  EXPECT_EQ(std::get<event::Drain>(*decode(m)->event).mode, DrainMode::kAsk);

  EXPECT_TRUE(std::holds_alternative<event::Detach>(*decode(message(RequestCode::kDetach))->event));
  const auto ping = decode(message(RequestCode::kPing, 0));
  EXPECT_FALSE(ping->event.has_value());
  EXPECT_EQ(ping->answer_room, 0u);
}

TEST_F(DecoderTest, Malformed_messages_are_refused_by_field) {
  const struct {
    const char* part;
    RequestCode code;
    void (*spoil)(segment::RingMessage&);
  } kCases[] = {
      {"code is 0", RequestCode{0}, [](auto&) {}},
      {"drain mode is 3", RequestCode::kDrain, [](auto& m) { m.args[0] = 3; }},
      {"code is 11", RequestCode{11}, [](auto&) {}},
      {"code is 4294967295", RequestCode{0xffffffff}, [](auto&) {}},
      {"ring_generation is 4", RequestCode::kPing, [](auto& m) { m.ring_generation = 4; }},
      {"body_offset is 65537", RequestCode::kPing, [](auto& m) { m.body_offset = 65'537; }},
      {"body_bytes is 65536", RequestCode::kPing, [](auto& m) { m.body_bytes = 65'536; }},
      {"body_bytes is 4294967295", RequestCode::kPing, [](auto& m) { m.body_bytes = ~0u; }},
      {"body_offset is 132", RequestCode::kPing, [](auto& m) { m.body_offset = 132; }},
      {"key_count is 65536", RequestCode::kPutStart,
       [](auto& m) { m.args[1] = std::uint64_t{65'536} << 32; }},
      {"group_count is 3", RequestCode::kPutStart,
       [](auto& m) {
         m.args[1] = std::uint64_t{2} << 32;
         m.args[2] = std::uint64_t{3} << 32;
       }},
      {"flags is 2", RequestCode::kPutStart, [](auto& m) { m.args[4] = 2; }},
      {"needed are", RequestCode::kPutStart, [](auto& m) { m.args[1] = std::uint64_t{500} << 32; }},
      {"count is 65536", RequestCode::kPutCommit, [](auto& m) { m.args[1] = 65'536; }},
      {"count is 18446744073709551615", RequestCode::kPutCommit,
       [](auto& m) { m.args[1] = ~std::uint64_t{0}; }},
      {"needed are", RequestCode::kPutCommit, [](auto& m) { m.args[1] = 200; }},
      {"key_count is 65536", RequestCode::kRemove, [](auto& m) { m.args[1] = 65'536; }},
      {"needed are", RequestCode::kRemove, [](auto& m) { m.args[1] = 200; }},
      {"namespace row", RequestCode::kRemove, [](auto& m) { m.args[0] = std::uint64_t{1} << 32; }},
      {"namespace row", RequestCode::kFlush, [](auto& m) { m.args[0] = std::uint64_t{1} << 32; }},
      {"family is 2", RequestCode::kFlush, [](auto& m) { m.args[1] = 2; }},
      {"descriptor length", RequestCode::kOpenNamespace, [](auto& m) { m.args[0] = 20'000; }},
      {"needed are", RequestCode::kOpenNamespace, [](auto& m) { m.args[0] = 3'000; }},
      {"needed are 32", RequestCode::kReportMismatch, [](auto& m) { m.body_bytes = 24; }},
  };
  for (const auto& c : kCases) {
    auto m = message(c.code);
    c.spoil(m);
    EXPECT_THAT(refusal(m), HasSubstr(c.part)) << static_cast<std::uint32_t>(c.code);
  }
}

TEST_F(DecoderTest, Room_for_the_answer_is_part_of_the_check) {
  auto m = put_start(10, 0, false);
  m.body_bytes = 160 + 89;  // one byte short of grants and outcomes
  EXPECT_THAT(refusal(m), HasSubstr("needed are 250"));
  m.body_bytes = 160 + 90;
  EXPECT_TRUE(decode(m).has_value());
}

TEST_F(DecoderTest, Absurd_wait_does_not_overflow) {
  auto m = put_start(1, 0, false);
  m.args[3] = ~std::uint64_t{0};
  EXPECT_LE(std::get<event::PutStart>(*decode(m)->event).wait_budget, 1'000 * kNsPerSecond);
}

TEST_F(DecoderTest, Random_messages_never_reach_outside) {
  Rng rng(42);
  for (std::byte& b : arena) b = static_cast<std::byte>(rng.next());
  std::uint64_t decoded = 0;
  for (int i = 0; i < 200'000; ++i) {
    segment::RingMessage m = message(static_cast<RequestCode>(rng.uniform(12)));
    m.body_offset = static_cast<std::uint32_t>(rng.uniform(70'000));
    m.body_bytes = static_cast<std::uint32_t>(rng.uniform(70'000));
    for (std::uint64_t& arg : m.args) {
      const std::uint64_t kind = rng.uniform(4);
      arg = kind == 0 ? rng.next() : kind == 1 ? rng.uniform(300) : rng.uniform(40) << 32;
    }
    const auto request = decode(m);
    if (!request) continue;
    ++decoded;
    EXPECT_LE(std::uint64_t{request->answer_offset} + request->answer_room, arena.size());
  }
  EXPECT_GT(decoded, 1'000u);
}

}  // namespace
}  // namespace orlop::protocol
