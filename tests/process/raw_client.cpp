// SPDX-License-Identifier: Apache-2.0
#include "raw_client.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "copy/checksum.h"
#include "orlop/namespace.h"
#include "platform/clock.h"
#include "platform/fork_guard.h"
#include "platform/poll_wait.h"
#include "platform/random_bytes.h"

namespace orlop::process_test {
namespace {

using protocol::FrameKind;

constexpr MonoNs kLimit = 10 * kNsPerSecond;

Error refusal_of(const ReceivedMessage& message) {
  const auto refusal = protocol::decode<protocol::RefusalFrame>(message.bytes);
  if (!refusal) return refusal.error();
  return {refusal->code, refusal->text};
}

}  // namespace

Result<FileDescriptor> connect_to(const std::string& socket) {
  return connect_unix(socket, monotonic_ns() + kLimit);
}

Result<ReceivedMessage> ask_node(int socket, const protocol::Bytes& bytes,
                                 std::span<const int> descriptors) {
  const auto sent = send_message(socket, bytes, descriptors);
  if (!sent) return std::unexpected<Error>(sent.error());
  const auto ready = wait_readable(socket, monotonic_ns() + kLimit);
  if (!ready) return std::unexpected<Error>(ready.error());
  if (!*ready) return fail(ErrorCode::kDeadline, "no answer to an attach frame");
  auto received = receive_message(socket);
  if (!received) return std::unexpected<Error>(received.error());
  if (received->state != ReceiveState::kMessage) return fail(ErrorCode::kClosed, "hang-up");
  return std::move(received->message);
}

bool wait_hang_up(int socket) {
  const MonoNs deadline = monotonic_ns() + kLimit;
  for (;;) {
    if (!wait_readable(socket, deadline).value_or(false)) return false;
    const auto received = receive_message(socket);
    if (!received || received->state == ReceiveState::kEnd) return true;
  }
}

Result<std::unique_ptr<RawClient>> RawClient::attach(const std::string& socket, Options options) {
  std::unique_ptr<RawClient> client(new RawClient);
  auto connected = connect_to(socket);
  if (!connected) return std::unexpected<Error>(connected.error());
  client->socket_ = std::move(*connected);
  client->nonce_ = options.nonce != 0 ? options.nonce : random_id().value();
  protocol::AttachFrame frame;
  frame.nonce = client->nonce_;
  frame.name = options.name;
  frame.sizes.ledger_cells = 6400;
  frame.sizes.arena_bytes = kMiB;
  frame.sizes.plan_bytes = kMiB;
  const FileDescriptor own = fork_pipe_to_send().value();
  const int pipe[] = {options.fork_pipe >= 0 ? options.fork_pipe : own.get()};
  auto answer = ask_node(client->socket_.get(), protocol::encode(frame), pipe);
  if (!answer) return std::unexpected<Error>(answer.error());
  const auto welcomed = client->welcome_came(std::move(*answer));
  if (!welcomed) return std::unexpected<Error>(welcomed.error());
  return client;
}

Result<void> RawClient::welcome_came(ReceivedMessage message) {
  const auto kind = protocol::frame_kind(message.bytes);
  if (!kind || *kind != FrameKind::kWelcome) return std::unexpected<Error>(refusal_of(message));
  const auto welcome = protocol::decode<protocol::WelcomeFrame>(message.bytes);
  CHECK(welcome.has_value() && message.descriptors.size() == 6, "a whole welcome");
  welcome_ = *welcome;
  auto& fds = message.descriptors;
  control_fd_ = std::move(fds[0]);
  value_fd_ = std::move(fds[1]);
  channel_fd_ = std::move(fds[2]);
  node_doorbell_ = EventFd::adopt(std::move(fds[3])).value();
  client_doorbell_ = EventFd::adopt(std::move(fds[4])).value();
  keeper_pipe_ = std::move(fds[5]);
  const auto geometry = segment::make_channel_geometry(welcome_.sizes).value();
  control_ =
      Mapping::map({control_fd_.get(), 0, welcome_.control_bytes, Access::kReadOnly, nullptr, 0})
          .value();
  value_ = Mapping::map({value_fd_.get(), 0, welcome_.value_bytes, Access::kReadWrite, nullptr, 0})
               .value();
  channel_memory_ =
      Mapping::map({channel_fd_.get(), 0, geometry.total_bytes, Access::kReadWrite, nullptr, 0})
          .value();
  area_ = segment::ControlArea::open(control_.span()).value();
  channel_ = segment::ChannelView::open(channel_memory_.span(), geometry).value();
  session_.emplace(area_, channel_, welcome_.client);
  return {};
}

Result<void> RawClient::resume(const std::string& socket) {
  session_->lost();
  const protocol::ResumeSnapshot snapshot = session_->reset();
  auto connected = connect_to(socket);
  if (!connected) return std::unexpected<Error>(connected.error());
  socket_ = std::move(*connected);
  protocol::ResumeFrame frame;
  frame.nonce = nonce_;
  frame.segment = welcome_.segment;
  frame.client = welcome_.client;
  frame.ring_generation = snapshot.ring_generation;
  frame.held = snapshot.held;
  const FileDescriptor own = fork_pipe_to_send().value();
  const int pipe[] = {own.get()};
  const auto answer = ask_node(socket_.get(), protocol::encode(frame), pipe);
  if (!answer) return std::unexpected<Error>(answer.error());
  const auto kind = protocol::frame_kind(answer->bytes);
  if (!kind || *kind != FrameKind::kResumed) return std::unexpected<Error>(refusal_of(*answer));
  session_->resumed();
  session_->pump();
  ring_node();
  return {};
}

Result<void> RawClient::resume_after_restart(const std::string& socket) {
  CHECK(wait_hang_up(socket_.get()), "the old server's end");
  Result<void> resumed;
  for (int attempt = 0; attempt < 5; ++attempt) {
    // A server that dies during the handshake is followed by the next one.
    resumed = resume(socket);
    if (resumed || resumed.error().code != ErrorCode::kClosed) break;
  }
  return resumed;
}

void RawClient::ring_node() {
  if (session_->must_ring()) node_doorbell_.ring();
}

protocol::Answer RawClient::wait_answer(std::uint64_t cookie) {
  const MonoNs deadline = monotonic_ns() + kLimit;
  ring_node();
  protocol::Answer answer;
  for (;;) {
    const auto next = session_->next(&answer);
    CHECK(next != protocol::Session::Next::kBroken, "the node's answers are well formed");
    if (next == protocol::Session::Next::kAnswer && answer.cookie == cookie) return answer;
    if (next == protocol::Session::Next::kAnswer) continue;
    if (session_->prepare_sleep()) {
      CHECK(client_doorbell_.wait(deadline).value_or(false), "an answer in time");
      client_doorbell_.drain();
    }
    session_->woke_up();
  }
}

void RawClient::ping() {
  const std::uint64_t cookie = next_cookie_++;
  CHECK(session_->ping(cookie).result == protocol::Post::kPosted);
  CHECK(wait_answer(cookie).status == protocol::kStatusOk);
}

NamespaceRow RawClient::open_namespace(std::uint32_t value_len) {
  NamespaceDescriptor descriptor;
  descriptor.engine = "test";
  descriptor.layout = "test-1";
  descriptor.model = "model";
  descriptor.revision = "r1";
  descriptor.dtype = "u8";
  descriptor.page_tokens = 16;
  descriptor.value_len = value_len;
  const std::uint64_t cookie = next_cookie_++;
  const std::string text = canonical_text(descriptor).value();
  CHECK(session_->open_namespace(text, cookie).result == protocol::Post::kPosted);
  const protocol::Answer answer = wait_answer(cookie);
  CHECK(answer.status == protocol::kStatusOk, answer.text.c_str());
  value_len_ = value_len;
  return NamespaceRow{static_cast<std::uint32_t>(answer.args[0])};
}

protocol::Answer RawClient::put_start(NamespaceRow row, const std::vector<KeyId>& keys) {
  const std::uint64_t cookie = next_cookie_++;
  const auto posted =
      session_->put_start({row, value_len_, 10'000, keys, {}, std::nullopt}, cookie);
  CHECK(posted.result == protocol::Post::kPosted);
  return wait_answer(cookie);
}

std::vector<Outcome> RawClient::commit(const protocol::Answer& started) {
  std::vector<protocol::CommitEntry> entries;
  for (const protocol::SlotGrant& grant : started.grants) {
    if (grant.slot == 0) continue;
    const SlotId slot{grant.slot};
    const segment::SlotRow& row = area_.slot(slot);
    const auto bytes =
        value_.span().subspan(area_.geometry().value_offset(slot, value_len_), value_len_);
    std::memset(bytes.data(), static_cast<int>(row.load_key().lo & 0xff), bytes.size());
    entries.push_back({grant.slot, grant.generation, checksum(bytes, {row.load_key(), 0})});
  }
  const std::uint64_t cookie = next_cookie_++;
  session_->commit(started.put, std::move(entries), cookie);
  session_->pump();
  return wait_answer(cookie).outcomes;
}

std::vector<Outcome> RawClient::put(NamespaceRow row, const std::vector<KeyId>& keys) {
  return commit(put_start(row, keys));
}

void RawClient::detach() {
  const std::uint64_t cookie = next_cookie_++;
  session_->detach(cookie);
  session_->pump();
  wait_answer(cookie);
}

}  // namespace orlop::process_test
