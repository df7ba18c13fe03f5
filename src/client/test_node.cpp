// SPDX-License-Identifier: Apache-2.0
#include "client/test_node.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <utility>

#include "base/check.h"
#include "platform/clock.h"
#include "runtime/server_start.h"

namespace orlop::client::testing {

using protocol::FrameKind;

namespace {

template <class T>
T must(Result<T> result) {
  CHECK(result.has_value(), result.has_value() ? "" : result.error().message.c_str());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

void serve(FileDescriptor link, protocol::NodeConfig config) {
  auto start = must(runtime::receive_start(std::move(link), monotonic_ns() + 10 * kNsPerSecond));
  runtime::ServerConfig server;
  server.node = std::move(config);
  auto loop = must(runtime::ServerLoop::create(server, std::move(start)));
  must(loop->run());
}

}  // namespace

TestNode::TestNode(TestNodeOptions options) : options_(std::move(options)) {
  char folder[] = "/tmp/orlop-test-XXXXXX";
  CHECK(::mkdtemp(folder) != nullptr);
  folder_ = folder;
  path_ = folder_ + "/node.sock";
  lock_ = must(FileLock::acquire(path_));
  listener_ = must(UnixListener::listen(path_, lock_));
  make_segment();
  if (options_.start) start_server();
}

TestNode::~TestNode() {
  if (running()) stop_server();
  listener_.close();
  lock_ = {};
  ::unlink((path_ + ".lock").c_str());
  ::rmdir(folder_.c_str());
}

void TestNode::make_segment() {
  runtime::MemoryOptions memory;
  memory.capacity = options_.capacity;
  memory.max_value_len = options_.max_value_len;
  memory.touch = false;
  memory.huge = HugePages::kOff;
  segment_ = must(runtime::create_segment(memory, {}));
  value_ = must(Mapping::map(
      {.fd = segment_.value.fd(), .bytes = segment_.value.bytes(), .access = Access::kReadWrite}));
  control_ = must(Mapping::map({.fd = segment_.control.fd(), .bytes = segment_.control.bytes()}));
  area_ = must(segment::ControlArea::open(control_.span()));
  machine_.emplace(segment_.id);
}

void TestNode::start_server() {
  CHECK(!running());
  auto pair = must(make_socket_pair());
  stop_ = must(EventFd::create());
  server_ = std::thread(serve, std::move(pair.first), options_.machine);
  keeper_ = std::thread(&TestNode::keep, this, std::move(pair.second), ++starts_);
}

void TestNode::stop_server() {
  stop_.ring();
  keeper_.join();
  server_.join();
}

void TestNode::replace_keeper() {
  const bool was_running = running();
  if (was_running) stop_server();
  kept_.clear();  // with it the write ends of all keeper pipes
  make_segment();
  if (was_running) start_server();
}

std::size_t TestNode::channels_held() {
  const std::lock_guard lock(mutex_);
  return machine_->held();
}

// The keeper's thread: from the hand-over to the end of this server.
void TestNode::keep(FileDescriptor socket, std::uint64_t incarnation) {
  runtime::MessageQueue link(std::move(socket));
  {
    const std::lock_guard lock(mutex_);
    auto order = machine_->begin_server(Incarnation{incarnation});
    order.hello.control_bytes = segment_.control.bytes();
    order.hello.value_bytes = segment_.value.bytes();
    const int memory[] = {segment_.control.fd(), segment_.value.fd(), listener_.fd()};
    must(link.send(protocol::encode(order.hello), memory));
    for (const protocol::HandOverFrame& one : order.channels) {
      std::vector<int> descriptors;
      for (const FileDescriptor& kept : kept_.at(one.client).descriptors)
        descriptors.push_back(kept.get());
      must(link.send(protocol::encode(one), descriptors));
    }
    must(link.send(protocol::encode_bare(FrameKind::kHandOverEnd)));
  }
  bool told = false;
  for (;;) {
    pollfd watched[2] = {{link.fd(), POLLIN, 0}, {told ? -1 : stop_.fd(), POLLIN, 0}};
    if (::poll(watched, 2, -1) < 0) continue;
    if (watched[1].revents != 0) {
      told = true;
      must(link.send(protocol::encode_bare(FrameKind::kStop)));
    }
    if (watched[0].revents == 0) continue;
    auto received = must(receive_message(link.fd()));
    if (received.state == ReceiveState::kEnd) return;
    if (received.state == ReceiveState::kMessage && !frame(link, std::move(received.message)))
      return;
  }
}

bool TestNode::frame(runtime::MessageQueue& link, ReceivedMessage message) {
  const std::lock_guard lock(mutex_);
  switch (must(protocol::frame_kind(message.bytes))) {
    case FrameKind::kServing:
      machine_->serving();
      return true;
    case FrameKind::kDrop: {
      const auto drop = must(protocol::decode<protocol::DropFrame>(message.bytes));
      if (!machine_->drop(drop.client).empty()) kept_.erase(drop.client);
      return true;
    }
    case FrameKind::kHold:
      break;
    default:
      return false;
  }
  const auto hold = must(protocol::decode<protocol::HoldFrame>(message.bytes));
  const auto held = std::get<protocol::keeper_effect::Answer>(machine_->hold(hold).at(0)).frame;
  CHECK(held.client.value != 0 && message.descriptors.size() == runtime::kChannelFds);
  auto pipe = must(make_pipe());
  Kept kept;
  for (std::size_t i = 0; i < kept.descriptors.size(); ++i)
    kept.descriptors[i] = std::move(message.descriptors[i]);
  kept.keeper_pipe = std::move(pipe.write_end);
  kept_.emplace(held.client, std::move(kept));
  const int read_end[] = {pipe.read_end.get()};
  must(link.send(protocol::encode(held), read_end));
  return true;
}

}  // namespace orlop::client::testing
