// SPDX-License-Identifier: Apache-2.0
#include "client/handshake.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "client/limits.h"
#include "platform/clock.h"
#include "platform/fork_guard.h"
#include "platform/pause_point.h"
#include "platform/system_error.h"
#include "platform/unix_socket.h"

namespace orlop::client {

namespace {

// Until the socket is ready for `events`; an error when it takes too long or `stop` (null: nobody)
// rings.
Result<void> wait_for(int socket, short events, const EventFd* stop, MonoNs deadline) {
  for (;;) {
    // poll passes over a negative descriptor.
    pollfd watched[2] = {{socket, events, 0}, {stop == nullptr ? -1 : stop->fd(), POLLIN, 0}};
    const MonoNs left = time_left(deadline, monotonic_ns());
    const timespec timeout{static_cast<time_t>(left / kNsPerSecond),
                           static_cast<long>(left % kNsPerSecond)};
    const int ready = ::ppoll(watched, 2, &timeout, nullptr);
    if (ready < 0 && errno != EINTR) return system_failure("ppoll(node's socket)", errno);
    if (ready > 0 && watched[1].revents != 0) return fail(ErrorCode::kClosed, "client was closed");
    if (ready > 0) return {};
    if (ready == 0)
      return fail(ErrorCode::kDeadline, "the node took the connection and does not answer");
  }
}

Result<void> send_frame(int socket, const protocol::Bytes& frame, const EventFd& stop,
                        MonoNs deadline) {
  const auto fork_pipe = fork_pipe_to_send();
  if (!fork_pipe) return std::unexpected(fork_pipe.error());
  const int descriptors[1] = {fork_pipe->get()};
  for (;;) {
    const auto sent = send_message(socket, frame, descriptors);
    if (!sent) return std::unexpected(sent.error());
    if (*sent) return {};
    if (auto waited = wait_for(socket, POLLOUT, &stop, deadline); !waited) return waited;
  }
}

Result<ReceivedMessage> receive_frame(int socket, const EventFd& stop, MonoNs last_wait,
                                      MonoNs deadline) {
  const EventFd* heeded = &stop;
  for (;;) {
    auto received = receive_message(socket);
    if (!received) return std::unexpected(received.error());
    switch (received->state) {
      case ReceiveState::kMessage:
        return std::move(received->message);
      case ReceiveState::kEnd:
        return fail(ErrorCode::kNoNode, "the node hung up during attach; it may be restarting");
      case ReceiveState::kWouldBlock:
        break;
    }
    auto waited = wait_for(socket, POLLIN, heeded, deadline);
    if (waited) continue;
    if (waited.error().code != ErrorCode::kClosed || last_wait == 0)
      return std::unexpected(waited.error());
    heeded = nullptr;
    deadline = std::min(deadline, monotonic_ns() + last_wait);
  }
}

// The answer of the wanted kind; `refused` is set when the node said no.
template <class Frame>
Result<Frame> read_answer(const ReceivedMessage& message, protocol::FrameKind wanted,
                          bool* refused) {
  const auto kind = protocol::frame_kind(message.bytes);
  if (!kind) return std::unexpected(kind.error());
  if (*kind == protocol::FrameKind::kRefusal) {
    const auto refusal = protocol::decode<protocol::RefusalFrame>(message.bytes);
    if (!refusal) return std::unexpected(refusal.error());
    *refused = true;
    return fail(refusal->code, refusal->text);
  }
  if (*kind != wanted) {
    return fail(ErrorCode::kCorrupt, "the node answered with frame kind " +
                                         std::to_string(static_cast<std::uint32_t>(*kind)) +
                                         " instead of " +
                                         std::to_string(static_cast<std::uint32_t>(wanted)));
  }
  return protocol::decode<Frame>(message.bytes);
}

}  // namespace

Result<Attached> attach(const std::string& path, std::uint64_t nonce, const std::string& name,
                        const segment::ChannelSizes& sizes, const EventFd& stop, MonoNs last_wait) {
  const MonoNs deadline = monotonic_ns() + kHandshakeWait;
  auto socket = connect_unix(path, deadline);
  if (!socket) return std::unexpected(socket.error());
  PAUSE_POINT(kClientHello);
  const protocol::Bytes frame =
      encode(protocol::AttachFrame{.nonce = nonce, .sizes = sizes, .name = name});
  if (auto sent = send_frame(socket->get(), frame, stop, deadline); !sent)
    return std::unexpected(sent.error());
  auto message = receive_frame(socket->get(), stop, last_wait, deadline);
  if (!message) return std::unexpected(message.error());
  bool refused = false;
  const auto welcome =
      read_answer<protocol::WelcomeFrame>(*message, protocol::FrameKind::kWelcome, &refused);
  if (!welcome) return std::unexpected(welcome.error());
  auto attachment = Attachment::map(*welcome, nonce, std::move(message->descriptors));
  if (!attachment) return std::unexpected(attachment.error());
  return Attached{std::move(*socket), welcome->incarnation, std::move(*attachment)};
}

std::expected<Resumed, ResumeFailure> resume(
    const std::string& path, const Attachment& attachment,
    const std::function<protocol::ResumeSnapshot()>& snapshot, const EventFd& stop) {
  const MonoNs deadline = monotonic_ns() + kHandshakeWait;
  auto socket = connect_unix(path, deadline);
  if (!socket) return std::unexpected(ResumeFailure{socket.error(), false, {}});
  const auto failed = [&socket](Error error, bool gone = false) {
    return std::unexpected(ResumeFailure{std::move(error), gone, std::move(*socket)});
  };
  PAUSE_POINT(kClientResuming);
  protocol::ResumeSnapshot taken = snapshot();
  const protocol::Bytes frame =
      encode(protocol::ResumeFrame{.nonce = attachment.nonce,
                                   .segment = attachment.segment,
                                   .client = attachment.client,
                                   .ring_generation = taken.ring_generation,
                                   .held = std::move(taken.held)});
  if (auto sent = send_frame(socket->get(), frame, stop, deadline); !sent)
    return failed(sent.error());
  const auto message = receive_frame(socket->get(), stop, /*last_wait=*/0, deadline);
  if (!message) return failed(message.error());
  bool refused = false;
  const auto answer =
      read_answer<protocol::ResumedFrame>(*message, protocol::FrameKind::kResumed, &refused);
  if (!answer) return failed(answer.error(), refused && answer.error().code == ErrorCode::kClosed);
  return Resumed{std::move(*socket), answer->incarnation};
}

}  // namespace orlop::client
