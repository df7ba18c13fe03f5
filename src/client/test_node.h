// SPDX-License-Identifier: Apache-2.0
// Test support: a whole node inside the test process. The real server loop on a thread, and a
// keeper of a few lines: holds the memory and the channels, hands them over to the next server.
// What only processes can show (SIGKILL, SIGSTOP, proof of death) is left to the process tests.
//
//   TestNode node;                       // serving
//   Client client({.socket = node.socket()});
//   node.stop_server(); node.start_server();   // a restart: everything kept
//   node.replace_keeper();               // a new segment: everything gone
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "platform/event_fd.h"
#include "platform/file_lock.h"
#include "platform/mapping.h"
#include "platform/unix_socket.h"
#include "protocol/attach/keeper_machine.h"
#include "runtime/channel_files.h"
#include "runtime/message_queue.h"
#include "runtime/segment_files.h"
#include "runtime/server_loop.h"

namespace orlop::client::testing {

struct TestNodeOptions {
  std::uint64_t capacity = 8 * kMiB;
  std::uint64_t max_value_len = 64 * kKiB;
  protocol::NodeConfig machine{};
  bool start = true;
};

class TestNode {
 public:
  explicit TestNode(TestNodeOptions options = {});
  ~TestNode();
  TestNode(const TestNode&) = delete;
  TestNode& operator=(const TestNode&) = delete;

  const std::string& socket() const { return path_; }
  void start_server();
  void stop_server();  // clients see its socket end; their channels stay with the keeper
  void restart_server() {
    stop_server();
    start_server();
  }
  void replace_keeper();
  bool running() const { return server_.joinable(); }
  std::size_t channels_held();

  // The node's memory, to look at and to damage.
  std::span<std::byte> value_bytes() { return value_.span(); }
  const segment::ControlArea& area() const { return area_; }

 private:
  struct Kept {
    std::array<FileDescriptor, runtime::kChannelFds> descriptors;
    FileDescriptor keeper_pipe;
  };
  void make_segment();
  void keep(FileDescriptor link, std::uint64_t incarnation);
  bool frame(runtime::MessageQueue& link, ReceivedMessage message);

  TestNodeOptions options_;
  std::string folder_, path_;
  FileLock lock_;
  UnixListener listener_;
  std::uint64_t starts_ = 0;
  runtime::SegmentFiles segment_;
  Mapping control_, value_;
  segment::ControlArea area_;
  std::mutex mutex_;  // machine_ and kept_
  std::optional<protocol::KeeperMachine> machine_;
  std::map<ClientId, Kept> kept_;
  std::thread server_, keeper_;
  EventFd stop_;
};

}  // namespace orlop::client::testing
