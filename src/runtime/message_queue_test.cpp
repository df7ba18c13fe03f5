// SPDX-License-Identifier: Apache-2.0
#include "runtime/message_queue.h"

#include <gtest/gtest.h>

#include "platform/unix_socket.h"

namespace orlop::runtime {
namespace {

class MessageQueueTest : public ::testing::Test {
 protected:
  MessageQueueTest() {
    SocketPair pair = make_socket_pair().value();
    queue_ = MessageQueue(std::move(pair.first));
    other_ = std::move(pair.second);
  }
  static protocol::Bytes frame(std::size_t number) {
    protocol::Bytes bytes(16 * 1024);
    bytes[0] = static_cast<std::byte>(number);
    return bytes;
  }
  MessageQueue queue_;
  FileDescriptor other_;
};

TEST_F(MessageQueueTest, Full_socket_waits_and_keeps_order_and_descriptors) {
  const Pipe pipe = make_pipe().value();
  std::size_t sent = 0;
  while (!queue_.waiting()) {
    const int fds[] = {pipe.read_end.get()};
    ASSERT_TRUE(queue_.send(frame(sent++), fds));
  }
  ASSERT_TRUE(queue_.send(frame(sent++)));
  for (std::size_t received = 0; received < sent; ++received) {
    auto message = receive_message(other_.get()).value();
    ASSERT_EQ(message.state, ReceiveState::kMessage);
    EXPECT_EQ(message.message.bytes[0], static_cast<std::byte>(received));
    EXPECT_EQ(message.message.descriptors.size(), received + 1 < sent ? 1u : 0u);
    ASSERT_TRUE(queue_.flush());
  }
  EXPECT_FALSE(queue_.waiting());
}

TEST_F(MessageQueueTest, Reader_that_never_reads_is_a_broken_link) {
  Result<void> sent;
  std::size_t count = 0;
  while ((sent = queue_.send(frame(0)))) ++count;
  EXPECT_EQ(sent.error().code, ErrorCode::kLimit);
  EXPECT_GE(count, MessageQueue::kMaxWaiting);
}

TEST_F(MessageQueueTest, Closed_peer_is_an_error) {
  other_.reset();
  EXPECT_FALSE(queue_.send(frame(0)));
}

}  // namespace
}  // namespace orlop::runtime
