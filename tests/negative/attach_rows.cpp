// SPDX-License-Identifier: Apache-2.0
// Clients that the node must not take.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "child_process.h"
#include "platform/fork_guard.h"
#include "raw_client.h"
#include "rows.h"

namespace orlop::negative_test {
namespace {

constexpr uid_t kNobody = 65'534;

// The refusal of one frame on a fresh connection.
Result<void> refusal(World& world, const protocol::Bytes& bytes, std::vector<int> descriptors) {
  auto socket = process_test::connect_to(world.socket());
  if (!socket) return std::unexpected(socket.error());
  const auto answer = process_test::ask_node(socket->get(), bytes, descriptors);
  if (!answer) return std::unexpected(answer.error());
  const auto frame = protocol::decode<protocol::RefusalFrame>(answer->bytes);
  if (!frame) return {};
  return fail(frame->code, frame->text);
}

protocol::AttachFrame good_frame() {
  protocol::AttachFrame frame;
  frame.nonce = 5;
  return frame;
}
int pipe_end() {
  return fork_pipe_read_end().value();
}

// liborlop as another user, in a child: what it is told.
Result<void> as_nobody(World& world) {
  if (::geteuid() != 0) {
    // Without root nobody can become somebody else; the unit tests of the attach machine remain.
    GTEST_LOG_(WARNING) << "another_user: not checked, needs root";
    return fail(ErrorCode::kRefused, "user 65534 allow_uids");
  }
  EXPECT_EQ(::chmod(world.folder().c_str(), 0755), 0);
  EXPECT_EQ(::chmod(world.socket().c_str(), 0666), 0);
  const double before = world.daemon().metric("orlop_refused_total{reason=\"refused\"}");
  auto refused = in_forked_child([&world]() -> Result<void> {
    if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)
      return fail(ErrorCode::kSystem, "cannot become nobody");
    Client client(Worker::options(world.socket(), "nobody", Milliseconds{100}));
    const bool told = process_test::eventually(
        [&] { return client.last_attach_error().code == ErrorCode::kRefused; }, 10);
    if (!told || client.ready()) return {};
    return std::unexpected(client.last_attach_error());
  });
  EXPECT_GT(world.daemon().metric("orlop_refused_total{reason=\"refused\"}"), before);
  return refused;
}

// With the socket's own rights the kernel refuses before the node does.
Result<void> as_nobody_at_the_file(World& world) {
  if (::geteuid() != 0) {
    GTEST_LOG_(WARNING) << "another_user_at_the_file: not checked, needs root";
    return fail(ErrorCode::kRefused, "connect owner and group only");
  }
  EXPECT_EQ(::chmod(world.folder().c_str(), 0755), 0);
  EXPECT_EQ(::chmod(world.socket().c_str(), 0660), 0);
  return in_forked_child([&world]() -> Result<void> {
    if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)
      return fail(ErrorCode::kSystem, "cannot become nobody");
    const auto attached = process_test::RawClient::attach(world.socket());
    return error_of(attached);
  });
}

Result<void> other_abi(World& world) {
  const double before = world.daemon().metric("orlop_refused_total{reason=\"abi_mismatch\"}");
  protocol::Bytes bytes = protocol::encode(good_frame());
  bytes[8] = std::byte{77};  // the version has its place in every version
  auto refused = refusal(world, bytes, {pipe_end()});
  EXPECT_EQ(world.daemon().metric("orlop_refused_total{reason=\"abi_mismatch\"}"), before + 1);
  return refused;
}

Result<void> other_abi_resume(World& world) {
  protocol::ResumeFrame frame;
  frame.nonce = 5;
  frame.segment = world.daemon().status().segment;
  frame.client = ClientId{1};
  protocol::Bytes bytes = protocol::encode(frame);
  bytes[8] = std::byte{78};
  return refusal(world, bytes, {pipe_end()});
}

Row frame_row(std::string name, ErrorCode code, std::vector<std::string> says,
              std::function<protocol::Bytes()> bytes, std::function<std::vector<int>()> fds) {
  return {Item::kHostileChannel, std::move(name), code, std::move(says),
          [bytes = std::move(bytes), fds = std::move(fds)](World& world) {
            return refusal(world, bytes(), fds());
          }};
}

Rows frame_rows() {
  const auto invalid = ErrorCode::kInvalidArgument;
  const auto pipe = [] { return std::vector<int>{pipe_end()}; };
  const auto none = [] { return std::vector<int>{}; };
  return {
      frame_row(
          "frame_of_three_bytes", invalid, {}, [] { return protocol::Bytes(3); }, none),
      frame_row(
          "frame_of_zeroes", invalid, {}, [] { return protocol::Bytes(200); }, pipe),
      frame_row(
          "frame_cut_short", invalid, {},
          [] {
            auto bytes = protocol::encode(good_frame());
            bytes.resize(bytes.size() - 1);
            return bytes;
          },
          pipe),
      frame_row(
          "attach_without_its_pipe", invalid, {"descriptor"},
          [] { return protocol::encode(good_frame()); }, none),
      frame_row(
          "attach_with_two_pipes", invalid, {"descriptor"},
          [] { return protocol::encode(good_frame()); },
          [] { return std::vector<int>{pipe_end(), pipe_end()}; }),
      frame_row(
          "attach_with_a_huge_arena", invalid, {"arena_bytes"},
          [] {
            auto frame = good_frame();
            frame.sizes.arena_bytes = ~std::uint64_t{0};
            return protocol::encode(frame);
          },
          pipe),
      frame_row(
          "attach_with_a_huge_ledger", invalid, {"ledger_cells"},
          [] {
            auto frame = good_frame();
            frame.sizes.ledger_cells = ~std::uint32_t{0};
            return protocol::encode(frame);
          },
          pipe),
      frame_row(
          "stop_sent_by_a_client", invalid, {},
          [] { return protocol::encode_bare(protocol::FrameKind::kStop); }, none),
      frame_row(
          "resume_by_a_stranger", ErrorCode::kClosed, {},
          [] {
            protocol::ResumeFrame stranger;
            stranger.nonce = 5;
            stranger.segment = SegmentId{1};
            stranger.client = ClientId{12'345};
            return protocol::encode(stranger);
          },
          pipe),
  };
}

}  // namespace

Rows attach_rows() {
  using enum Item;
  Rows rows = {
      {kAnotherUser, "another_user", ErrorCode::kRefused, {"user 65534", "allow_uids"}, as_nobody},
      {kAnotherUser,
       "another_user_at_the_file",
       ErrorCode::kRefused,
       {"connect", "owner and group only"},
       as_nobody_at_the_file},
      {kOtherAbi,
       "attach_of_another_abi",
       ErrorCode::kAbiMismatch,
       {"77", std::to_string(segment::kAbiVersion)},
       other_abi},
      {kOtherAbi,
       "resume_of_another_abi",
       ErrorCode::kAbiMismatch,
       {"78", std::to_string(segment::kAbiVersion)},
       other_abi_resume},
  };
  for (Row& row : frame_rows()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace orlop::negative_test
