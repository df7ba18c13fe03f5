// SPDX-License-Identifier: Apache-2.0
#include "runtime/server_start.h"

#include <utility>

#include "platform/poll_wait.h"

namespace orlop::runtime {
namespace {

using protocol::FrameKind;

Result<ReceivedMessage> next_message(int socket, MonoNs deadline) {
  for (;;) {
    auto received = receive_message(socket);
    if (!received) return std::unexpected<Error>(received.error());
    if (received->state == ReceiveState::kMessage) return std::move(received->message);
    if (received->state == ReceiveState::kEnd) {
      return fail(ErrorCode::kClosed, "the keeper has gone");
    }
    const auto ready = wait_readable(socket, deadline);
    if (!ready) return std::unexpected<Error>(ready.error());
    if (!*ready) return fail(ErrorCode::kDeadline, "the keeper's hand-over did not end in time");
  }
}

// Kind and number of descriptors are checked here.
Result<ReceivedMessage> next_frame(int socket, MonoNs deadline, FrameKind wanted) {
  auto message = next_message(socket, deadline);
  if (!message) return message;
  const auto kind = protocol::frame_kind(message->bytes);
  if (!kind) return std::unexpected<Error>(kind.error());
  const auto range = protocol::descriptors_of(*kind);
  if (*kind != wanted || message->descriptors.size() < range.least ||
      message->descriptors.size() > range.most) {
    return fail(ErrorCode::kInvalidArgument, "hand-over: a frame of another kind was expected");
  }
  return message;
}

Result<void> receive_hello(ServerStart& start, MonoNs deadline) {
  auto message = next_frame(start.keeper.fd(), deadline, FrameKind::kHello);
  if (!message) return std::unexpected<Error>(message.error());
  auto hello = protocol::decode<protocol::HelloFrame>(message->bytes);
  if (!hello) return std::unexpected<Error>(hello.error());
  start.hello = std::move(*hello);
  auto& fds = message->descriptors;
  if (start.hello.admin != (fds.size() == 4)) {
    return fail(ErrorCode::kInvalidArgument, "hand-over: admin socket announced but not sent");
  }
  auto listener = UnixListener::adopt(std::move(fds[2]));
  if (!listener) return std::unexpected<Error>(listener.error());
  start.listener = std::move(*listener);
  if (start.hello.admin) start.admin_socket = std::move(fds[3]);
  auto segment = map_segment(std::move(fds[0]), std::move(fds[1]), start.hello.control_bytes,
                             start.hello.value_bytes);
  if (!segment) return std::unexpected<Error>(segment.error());
  start.segment = std::move(*segment);
  if (start.segment.area.segment_id() != start.hello.segment) {
    return fail(ErrorCode::kCorrupt, "control area: segment_id is not the keeper's");
  }
  return {};
}

Result<void> receive_channel(ServerStart& start, MonoNs deadline) {
  auto message = next_frame(start.keeper.fd(), deadline, FrameKind::kHandOver);
  if (!message) return std::unexpected<Error>(message.error());
  auto frame = protocol::decode<protocol::HandOverFrame>(message->bytes);
  if (!frame) return std::unexpected<Error>(frame.error());
  const auto geometry = segment::make_channel_geometry(frame->sizes);
  if (!geometry) return std::unexpected<Error>(geometry.error());
  auto files = adopt_channel(std::move(message->descriptors), *geometry);
  if (!files) {
    // Not kCorrupt: a channel that cannot be mapped now is a reason to try again.
    return fail(ErrorCode::kSystem, "channel of client " + std::to_string(frame->client.value) +
                                        ": " + files.error().message);
  }
  start.channels.push_back({std::move(*frame), *geometry, std::move(*files)});
  return {};
}

}  // namespace

Result<ServerStart> receive_start(FileDescriptor keeper_socket, MonoNs deadline) {
  ServerStart start;
  start.keeper = MessageQueue(std::move(keeper_socket));
  const auto hello = receive_hello(start, deadline);
  if (!hello) return std::unexpected<Error>(hello.error());
  for (std::uint32_t i = 0; i < start.hello.channels; ++i) {
    const auto channel = receive_channel(start, deadline);
    if (!channel) return std::unexpected<Error>(channel.error());
  }
  const auto end = next_frame(start.keeper.fd(), deadline, FrameKind::kHandOverEnd);
  if (!end) return std::unexpected<Error>(end.error());
  return start;
}

}  // namespace orlop::runtime
