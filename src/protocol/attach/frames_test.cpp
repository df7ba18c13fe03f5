// SPDX-License-Identifier: Apache-2.0
#include "protocol/attach/frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/rng.h"

namespace orlop::protocol {
namespace {

using ::testing::HasSubstr;

AttachFrame attach_frame() {
  AttachFrame frame;
  frame.nonce = 77;
  frame.name = "worker-0";
  return frame;
}
ResumeFrame resume_frame() {
  ResumeFrame frame;
  frame.nonce = 77;
  frame.segment = SegmentId{5};
  frame.client = ClientId{3};
  frame.ring_generation = 2;
  frame.held = {make_put_id(ClientId{3}, 1), make_put_id(ClientId{3}, 9)};
  return frame;
}
HelloFrame hello_frame() {
  HelloFrame frame;
  frame.segment = SegmentId{5};
  frame.incarnation = Incarnation{6};
  frame.cold = true;
  frame.admin = true;
  frame.channels = 2;
  frame.control_bytes = 4096;
  frame.value_bytes = 8192;
  frame.last_end = "signal 9 (SIGKILL)";
  return frame;
}
WelcomeFrame welcome_frame() {
  WelcomeFrame frame;
  frame.segment = SegmentId{5};
  frame.incarnation = Incarnation{6};
  frame.client = ClientId{3};
  frame.value_bytes = 1 << 20;
  return frame;
}
HoldFrame hold_frame() {
  return {77, 1, 4711, {}, "w"};
}
LedgerFrame ledger_frame() {
  LedgerFrame frame;
  frame.segment = SegmentId{5};
  frame.served = true;
  frame.next_client = 9;
  frame.server = 2;
  frame.control_inode = 11;
  frame.value_inode = 12;
  frame.placement = "0=4096";
  frame.made_with = "memory.huge = try";
  frame.clients = {{ClientId{3}, 77, 4711, {}, "w"}, {ClientId{8}, 78, 4712, {}, ""}};
  return frame;
}

// Every frame kind once, as bytes.
std::vector<Bytes> samples() {
  return {encode(attach_frame()),
          encode(resume_frame()),
          encode(welcome_frame()),
          encode(ResumedFrame{Incarnation{6}}),
          encode(RefusalFrame{ErrorCode::kLimit, "full"}),
          encode(hold_frame()),
          encode(HeldFrame{1, ClientId{3}, "x"}),
          encode(DropFrame{ClientId{3}}),
          encode(hello_frame()),
          encode(HandOverFrame{ClientId{3}, 77, 4711, {}, "w"}),
          encode_bare(FrameKind::kServing),
          encode_bare(FrameKind::kHandOverEnd),
          encode_bare(FrameKind::kStop),
          encode_bare(FrameKind::kPing),
          encode_bare(FrameKind::kPong),
          encode(UpgradeFrame{UpgradeOutcome::kRolledBack, "1.0", "1.1", "signal 9", 1, 2, 3}),
          encode(ledger_frame())};
}

// Decodes as what it says it is; the error's text, or empty.
std::string decode_any(std::span<const std::byte> bytes) {
  const auto kind = frame_kind(bytes);
  if (!kind) return kind.error().message;
  const auto text = [](const auto& result) {
    return result ? std::string() : result.error().message;
  };
  switch (*kind) {
    case FrameKind::kAttach:
      return text(decode<AttachFrame>(bytes));
    case FrameKind::kResume:
      return text(decode<ResumeFrame>(bytes));
    case FrameKind::kWelcome:
      return text(decode<WelcomeFrame>(bytes));
    case FrameKind::kResumed:
      return text(decode<ResumedFrame>(bytes));
    case FrameKind::kRefusal:
      return text(decode<RefusalFrame>(bytes));
    case FrameKind::kHold:
      return text(decode<HoldFrame>(bytes));
    case FrameKind::kHeld:
      return text(decode<HeldFrame>(bytes));
    case FrameKind::kDrop:
      return text(decode<DropFrame>(bytes));
    case FrameKind::kHello:
      return text(decode<HelloFrame>(bytes));
    case FrameKind::kHandOver:
      return text(decode<HandOverFrame>(bytes));
    case FrameKind::kUpgrade:
      return text(decode<UpgradeFrame>(bytes));
    case FrameKind::kLedger:
      return text(decode<LedgerFrame>(bytes));
    default:
      return {};
  }
}

void poke(Bytes& bytes, std::size_t at, std::uint32_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

TEST(Frames, Attach_round_trip_keeps_fields) {
  AttachFrame in = attach_frame();
  in.sizes.ledger_cells = 640;
  const auto out = decode<AttachFrame>(encode(in));
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(out->nonce, 77u);
  EXPECT_EQ(out->name, "worker-0");
  EXPECT_EQ(out->sizes.ledger_cells, 640u);
  EXPECT_EQ(out->sizes.plan_bytes, in.sizes.plan_bytes);
}

TEST(Frames, Resume_round_trip_keeps_puts) {
  const auto out = decode<ResumeFrame>(encode(resume_frame()));
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(out->held, resume_frame().held);
  EXPECT_EQ(out->ring_generation, 2u);
}

TEST(Frames, Largest_resume_fits_a_frame) {
  ResumeFrame frame = resume_frame();
  frame.held.assign(kMaxHeldPuts, make_put_id(frame.client, 1));
  const Bytes bytes = encode(frame);
  EXPECT_LE(bytes.size(), kMaxFrameBytes);
  EXPECT_TRUE(decode<ResumeFrame>(bytes));
}

TEST(Frames, Hello_round_trip_keeps_fields) {
  const auto out = decode<HelloFrame>(encode(hello_frame()));
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_TRUE(out->cold);
  EXPECT_TRUE(out->admin);
  EXPECT_EQ(out->last_end, "signal 9 (SIGKILL)");
}

TEST(Frames, Ledger_round_trip_keeps_every_byte) {
  const Bytes bytes = encode(ledger_frame());
  const auto out = decode<LedgerFrame>(bytes);
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(out->clients.size(), 2u);
  EXPECT_EQ(out->value_inode, 12u);
  EXPECT_EQ(out->made_with, "memory.huge = try");
  EXPECT_EQ(encode(*out), bytes);
}

TEST(Frames, Placement_is_read_as_far_as_it_makes_sense) {
  using Pairs = std::vector<std::pair<int, std::uint64_t>>;
  EXPECT_EQ(parse_placement(""), Pairs{});
  EXPECT_EQ(parse_placement("0=4096 1=8192"), (Pairs{{0, 4096}, {1, 8192}}));
  EXPECT_EQ(parse_placement("0=4096 x=1"), (Pairs{{0, 4096}}));
  EXPECT_EQ(parse_placement("0=99999999999999999999"), Pairs{});
  EXPECT_EQ(parse_placement("0=4096x"), Pairs{});
}

TEST(Frames, Largest_ledger_fits_a_frame) {
  LedgerFrame frame = ledger_frame();
  frame.placement.assign(kMaxPlacementText, '1');
  frame.made_with.assign(kMaxMadeWithText, 'x');
  frame.clients.assign(kMaxClients, {ClientId{3}, 77, 4711, {}, std::string(kMaxClientName, 'x')});
  EXPECT_TRUE(decode<LedgerFrame>(encode(frame)));
}

TEST(Frames, Every_sample_decodes) {
  for (const Bytes& bytes : samples()) EXPECT_EQ(decode_any(bytes), "");
}

TEST(Frames, Shortened_by_any_length_refused) {
  for (const Bytes& bytes : samples()) {
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      // A copy of exactly n bytes, so that a sanitizer sees a read past the end.
      const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
      EXPECT_NE(decode_any(cut), "") << n << " of " << bytes.size();
    }
  }
}

TEST(Frames, Lengthened_refused) {
  for (Bytes bytes : samples()) {
    bytes.push_back(std::byte{0});
    EXPECT_THAT(decode_any(bytes), HasSubstr("length"));
  }
}

TEST(Frames, Kind_mismatch_names_both) {
  const auto out = decode<AttachFrame>(encode(ResumedFrame{Incarnation{6}}));
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(out.error().message, "attach frame: kind is resumed");
}

TEST(Frames, Unknown_kind_and_magic_refused) {
  Bytes bytes = encode_bare(FrameKind::kStop);
  poke(bytes, 4, 999);
  EXPECT_THAT(decode_any(bytes), HasSubstr("kind 999 is unknown"));
  poke(bytes, 0, 1);
  EXPECT_THAT(decode_any(bytes), HasSubstr("magic"));
}

TEST(Frames, Oversized_refused) {
  Bytes bytes = encode(attach_frame());
  bytes.resize(kMaxFrameBytes + 1);
  EXPECT_THAT(decode_any(bytes), HasSubstr("are the most"));
}

TEST(Frames, Other_abi_names_both_versions) {
  Bytes bytes = encode(attach_frame());
  poke(bytes, 8, 41);
  bytes.resize(12);  // the rest of another version's frame is not ours to read
  const auto out = decode<AttachFrame>(bytes);
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, ErrorCode::kAbiMismatch);
  EXPECT_THAT(out.error().message, HasSubstr("41"));
  EXPECT_THAT(out.error().message, HasSubstr("version " + std::to_string(segment::kAbiVersion)));
}

TEST(Frames, Bad_values_refused_by_field) {
  AttachFrame attach = attach_frame();
  Bytes bytes = encode(attach);
  std::memset(bytes.data() + 12, 0, 8);
  EXPECT_EQ(decode_any(bytes), "attach frame: nonce is 0");

  bytes = encode(attach);
  bytes.back() = std::byte{7};
  EXPECT_THAT(decode_any(bytes), HasSubstr("name has other than printable"));

  ResumeFrame resume = resume_frame();
  resume.held.push_back(make_put_id(ClientId{4}, 1));
  EXPECT_EQ(decode_any(encode(resume)), "resume frame: held names a put of another client");

  bytes = encode(RefusalFrame{ErrorCode::kLimit, ""});
  poke(bytes, 8, 200);
  EXPECT_THAT(decode_any(bytes), HasSubstr("code is no error code"));
}

TEST(Frames, Huge_counts_refused_without_allocation) {
  LedgerFrame ledger = ledger_frame();
  ledger.placement.clear();
  ledger.clients.clear();
  Bytes written = encode(ledger);
  poke(written, written.size() - 4, 0xffffffff);
  EXPECT_THAT(decode_any(written), HasSubstr("clients has 4294967295 entries"));
  Bytes bytes = encode(resume_frame());
  poke(bytes, 36, 0xffffffff);
  EXPECT_THAT(decode_any(bytes), HasSubstr("held has 4294967295 entries"));
  bytes = encode(RefusalFrame{ErrorCode::kLimit, "full"});
  poke(bytes, 12, 0xffffffff);
  EXPECT_THAT(decode_any(bytes), HasSubstr("text is 4294967295 bytes long"));
  poke(bytes, 12, 5);
  EXPECT_THAT(decode_any(bytes), HasSubstr("text ends after the frame"));
}

TEST(Frames, Random_bytes_never_decode_into_trouble) {
  Rng rng(1);
  for (int round = 0; round < 20'000; ++round) {
    for (Bytes bytes : {encode(resume_frame()), encode(hello_frame()), encode(hold_frame())}) {
      const std::size_t at = rng.uniform(bytes.size());
      bytes[at] = static_cast<std::byte>(rng.uniform(256));
      decode_any(bytes);
    }
  }
}

TEST(Frames, Long_refusal_text_is_cut) {
  const auto out =
      decode<RefusalFrame>(encode(RefusalFrame{ErrorCode::kLimit, std::string(5000, 'x')}));
  ASSERT_TRUE(out);
  EXPECT_EQ(out->text.size(), kMaxErrorText);
}

TEST(Frames, Client_name_is_cleaned) {
  EXPECT_EQ(clean_client_name("a\nb\xc3\xa9"), "a_b__");
  EXPECT_EQ(clean_client_name(std::string(100, 'a')).size(), kMaxClientName);
}

}  // namespace
}  // namespace orlop::protocol
