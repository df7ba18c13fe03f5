// SPDX-License-Identifier: Apache-2.0
// What a client must not do: it loses its connection, nobody else anything. At the end of the file,
// clients that write over all memory that they may write, beside an honest one.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "daemon.h"
#include "platform/fork_guard.h"
#include "protocol/attach/attach_machine.h"
#include "raw_client.h"
#include "scribbler.h"
#include "workload.h"

namespace orlop::process_test {
namespace {

using protocol::Bytes;
using ::testing::HasSubstr;

class DaemonHostile : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(daemon_.wait_serving()) << daemon_.log(); }

  // Code of the refusal of one frame on a fresh connection.
  ErrorCode refusal(const Bytes& bytes, std::vector<int> descriptors) {
    auto socket = connect_to(daemon_.socket());
    if (!socket) return socket.error().code;
    const auto answer = ask_node(socket->get(), bytes, descriptors);
    if (!answer) return answer.error().code;
    const auto frame = protocol::decode<protocol::RefusalFrame>(answer->bytes);
    if (!frame) return frame.error().code;
    last_text_ = frame->text;
    return frame->code;
  }
  // The node still serves others.
  void expect_alive() {
    auto client = RawClient::attach(daemon_.socket());
    ASSERT_TRUE(client) << client.error().message;
    (*client)->ping();
    (*client)->detach();
  }

  TemporaryFolder folder_;
  Daemon daemon_{folder_.path()};
  std::string last_text_;
};

TEST_F(DaemonHostile, Attach_frames_are_refused_by_name) {
  const int pipe = fork_pipe_read_end().value();
  const FileDescriptor file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  protocol::AttachFrame good;
  good.nonce = 5;
  const Bytes bytes = protocol::encode(good);

  EXPECT_EQ(refusal(Bytes(3), {}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(bytes, {}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(bytes, {pipe, pipe}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(bytes, {file.get()}), ErrorCode::kCorrupt);
  EXPECT_THAT(last_text_, HasSubstr("pipe"));

  Bytes other_abi = bytes;
  other_abi[8] = std::byte{77};
  EXPECT_EQ(refusal(other_abi, {pipe}), ErrorCode::kAbiMismatch);
  EXPECT_THAT(last_text_, HasSubstr("77"));

  protocol::AttachFrame huge = good;
  huge.sizes.arena_bytes = ~std::uint64_t{0};
  EXPECT_EQ(refusal(protocol::encode(huge), {pipe}), ErrorCode::kInvalidArgument);
  EXPECT_THAT(last_text_, HasSubstr("arena_bytes"));

  protocol::ResumeFrame stranger;
  stranger.nonce = 5;
  stranger.segment = daemon_.status().segment;
  stranger.client = ClientId{12345};
  EXPECT_EQ(refusal(protocol::encode(stranger), {pipe}), ErrorCode::kClosed);

  EXPECT_EQ(refusal(protocol::encode_bare(protocol::FrameKind::kStop), {}),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(daemon_.metric("orlop_refused_total{reason=\"abi_mismatch\"}"), 1);
  EXPECT_EQ(daemon_.metric("orlop_clients_known"), 0);
  expect_alive();
}

TEST_F(DaemonHostile, Malformed_messages_close_that_client_only) {
  auto witness = RawClient::attach(daemon_.socket());
  ASSERT_TRUE(witness) << witness.error().message;
  using segment::RingMessage;
  const auto with = [](auto change) {
    RingMessage message;
    message.code = static_cast<std::uint32_t>(protocol::RequestCode::kPing);
    message.request_id = 1;
    change(message);
    return message;
  };
  const RingMessage cases[] = {
      with([](RingMessage& m) { m.code = 99; }),
      with([](RingMessage& m) { m.ring_generation = 5; }),
      with([](RingMessage& m) { m.body_offset = 0xffffff00; }),
      with([](RingMessage& m) { m.body_bytes = 0xffffffff; }),
      with([](RingMessage& m) {
        m.code = static_cast<std::uint32_t>(protocol::RequestCode::kPutStart);
        m.args[1] = ~std::uint64_t{0};
      }),
      with([](RingMessage& m) {
        m.code = static_cast<std::uint32_t>(protocol::RequestCode::kPutCommit);
        m.args[1] = 1000;
      }),
  };
  double closed = 0;
  for (const RingMessage& message : cases) {
    auto client = RawClient::attach(daemon_.socket());
    ASSERT_TRUE(client) << client.error().message;
    const segment::ChannelView channel = (*client)->channel();
    channel.request_cells()[0] = message;
    channel.header().request_tail.store(1);
    (*client)->ring_node();
    EXPECT_TRUE(wait_hang_up((*client)->socket())) << "case " << closed;
    EXPECT_EQ(daemon_.metric("orlop_malformed_clients_total"), ++closed);
    (*witness)->ping();
  }
}

TEST_F(DaemonHostile, Ring_counters_that_lie_close_that_client_only) {
  auto witness = RawClient::attach(daemon_.socket());
  ASSERT_TRUE(witness) << witness.error().message;
  auto client = RawClient::attach(daemon_.socket());
  ASSERT_TRUE(client) << client.error().message;
  (*client)->channel().header().request_tail.store(segment::kRingCells + 1);
  (*client)->ring_node();
  EXPECT_TRUE(wait_hang_up((*client)->socket()));

  // A response ring that the client pretends to be full.
  client = RawClient::attach(daemon_.socket());
  ASSERT_TRUE(client) << client.error().message;
  (*client)->channel().header().response_head.store(1000);
  (*client)->session().ping(1);
  (*client)->ring_node();
  EXPECT_TRUE(wait_hang_up((*client)->socket()));
  (*witness)->ping();
}

TEST_F(DaemonHostile, Expelled_client_may_resume) {
  auto client = RawClient::attach(daemon_.socket());
  ASSERT_TRUE(client) << client.error().message;
  (*client)->channel().header().request_tail.store(segment::kRingCells + 1);
  (*client)->ring_node();
  ASSERT_TRUE(wait_hang_up((*client)->socket()));
  const auto resumed = (*client)->resume(daemon_.socket());
  ASSERT_TRUE(resumed) << resumed.error().message;
  (*client)->ping();
}

TEST_F(DaemonHostile, Second_frame_on_a_connection_ends_it) {
  auto client = RawClient::attach(daemon_.socket());
  ASSERT_TRUE(client) << client.error().message;
  ASSERT_TRUE(send_message((*client)->socket(), Bytes(16)));
  EXPECT_TRUE(wait_hang_up((*client)->socket()));
  expect_alive();
}

TEST_F(DaemonHostile, Silent_connections_hold_nothing_up) {
  std::vector<FileDescriptor> silent;
  for (std::size_t i = 0; i < protocol::kMaxHandshakes + 8; ++i) {
    auto socket = connect_to(daemon_.socket());
    ASSERT_TRUE(socket) << socket.error().message;
    silent.push_back(std::move(*socket));
  }
  // The handshake limit ends them; then others get in.
  EXPECT_TRUE(eventually([&] { return RawClient::attach(daemon_.socket()).has_value(); }));
}

TEST_F(DaemonHostile, Another_user_is_refused_and_told) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  ASSERT_EQ(::chmod(daemon_.socket().c_str(), 0666), 0);
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(9);
    const auto attached = RawClient::attach(daemon_.socket());
    const bool told = !attached && attached.error().code == ErrorCode::kRefused &&
                      attached.error().message.find("65534") != std::string::npos;
    ::_exit(told ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << daemon_.log();
  EXPECT_EQ(daemon_.metric("orlop_refused_total{reason=\"refused\"}"), 1);
  expect_alive();
}

TEST_F(DaemonHostile, Control_area_cannot_be_mapped_for_writing) {
  auto client = RawClient::attach(daemon_.socket());
  ASSERT_TRUE(client) << client.error().message;
  EXPECT_FALSE((*client)->control_is_writable());
}

// ---- scribbling --------------------------------------------------------------------------------

TEST_F(DaemonHostile, Scribbling_over_a_whole_channel_harms_nobody_else) {
  Scribbler first(daemon_.socket(), {.seed = 1, .rounds = 150});
  Scribbler second(daemon_.socket(), {.seed = 2, .rounds = 150});
  Workload workload(daemon_.socket());
  EXPECT_TRUE(first.wait());
  EXPECT_TRUE(second.wait());
  const std::uint64_t before = workload.hits();
  EXPECT_TRUE(eventually([&] { return workload.hits() > before + 1'000; })) << daemon_.log();
  EXPECT_EQ(workload.wrong(), 0U);
  EXPECT_EQ(workload.attaches(), 1U);
  workload.stop();
  EXPECT_GT(daemon_.metric("orlop_malformed_clients_total"), 0);
  // Both are dead; nothing of them is left, and it is still the first server.
  EXPECT_TRUE(eventually([&] { return daemon_.metric("orlop_clients_known") == 1; }))
      << daemon_.log();
  EXPECT_TRUE(eventually([&] { return daemon_.metric("orlop_open_puts") == 0; }));
  EXPECT_EQ(daemon_.status().restarts, 0U) << daemon_.log();
  expect_alive();
}

// Who verifies (copy_out, view: always) takes no wrong byte for right while somebody overwrites all
// pages; the node finds what is reported, and throws it out.
TEST_F(DaemonHostile, Scribbling_over_the_value_area_is_found_by_readers) {
  Scribbler scribbler(daemon_.socket(), {.seed = 3, .values_bytes = 2 * kMiB});
  Client client({.socket = daemon_.socket(), .name = "honest"});
  const auto ns = client.open_namespace(workload_namespace());
  ASSERT_TRUE(ns) << ns.error().message;
  std::uint64_t right = 0, wrong = 0, refused = 0;
  const auto read_all = [&](const std::vector<std::string>& keys) {
    auto handle = client.get_start(*ns, views_of(keys));
    if (!handle) return;
    auto plan = client.get_transfer(*handle);
    if (!plan) return;
    std::vector<std::byte> page(kPageBytesOfWorkload);
    for (std::size_t i = 0; i < plan->size(); ++i) {
      const auto good = plan->copy_out(i, page);
      ASSERT_TRUE(good) << good.error().message;
      ++(!*good ? refused : page == page_of(keys[i]) ? right : wrong);
    }
    client.release_views(*plan);
  };
  unsigned round = 0;
  const bool enough = eventually([&] {
    const auto keys = page_keys("round-" + std::to_string(round++ % 20) + "-", 8);
    put_pages(client, *ns, keys);
    read_all(keys);
    return refused >= 20 && right >= 100;
  });
  EXPECT_TRUE(enough) << right << " right, " << refused << " refused";
  EXPECT_EQ(wrong, 0U);
  scribbler.kill();
  EXPECT_TRUE(eventually([&] { return daemon_.metric("orlop_mismatches_confirmed_total") > 0; }));
  EXPECT_EQ(daemon_.status().restarts, 0U) << daemon_.log();
  const auto fresh = page_keys("fresh-", 16);
  ASSERT_TRUE(put_pages(client, *ns, fresh));
  right = refused = 0;
  read_all(fresh);
  EXPECT_EQ(right, fresh.size());
}

}  // namespace
}  // namespace orlop::process_test
