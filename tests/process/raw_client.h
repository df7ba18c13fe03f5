// SPDX-License-Identifier: Apache-2.0
// A client without liborlop: speaks the attach frames and the rings itself, so that tests can also
// say what the library never would. Calls wait up to 10 s and CHECK.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "orlop/error.h"
#include "orlop/outcome.h"
#include "platform/event_fd.h"
#include "platform/file_descriptor.h"
#include "platform/mapping.h"
#include "platform/unix_socket.h"
#include "protocol/attach/frames.h"
#include "protocol/session/session.h"

namespace orlop::process_test {

// Sends bytes and descriptors on a fresh connection and waits for the answer; an error when the
// node closes without one.
Result<ReceivedMessage> ask_node(int socket, const protocol::Bytes& bytes,
                                 std::span<const int> descriptors);
Result<FileDescriptor> connect_to(const std::string& socket);
// Waits for the peer's hang-up; what it said before (a refusal) is thrown away.
bool wait_hang_up(int socket);

class RawClient {
 public:
  struct Options {
    std::uint64_t nonce = 0;  // 0: random
    std::string name = "raw";
    int fork_pipe = -1;  // -1: this process's
  };
  // Errors: the node's refusal, as its code and text.
  static Result<std::unique_ptr<RawClient>> attach(const std::string& socket, Options options);
  static Result<std::unique_ptr<RawClient>> attach(const std::string& socket) {
    return attach(socket, Options{});
  }

  // After the server has gone: reset, connect, resume. Errors as attach.
  Result<void> resume(const std::string& socket);
  // Waits for the old server's hang-up first.
  Result<void> resume_after_restart(const std::string& socket);

  void ping();
  NamespaceRow open_namespace(std::uint32_t value_len);
  // Outcomes of put_start; grants_ keeps the memory.
  protocol::Answer put_start(NamespaceRow row, const std::vector<KeyId>& keys);
  std::vector<Outcome> commit(const protocol::Answer& started);
  std::vector<Outcome> put(NamespaceRow row, const std::vector<KeyId>& keys);
  void detach();

  const protocol::WelcomeFrame& welcome() const { return welcome_; }
  protocol::Session& session() { return *session_; }
  segment::ChannelView channel() const { return channel_; }
  segment::ControlArea area() const { return area_; }
  // What this process may write: its whole channel, and the value area of everybody.
  std::span<std::byte> channel_bytes() const { return channel_memory_.span(); }
  std::span<std::byte> values() const { return value_.span(); }
  int socket() const { return socket_.get(); }
  int keeper_pipe() const { return keeper_pipe_.get(); }
  std::uint64_t nonce() const { return nonce_; }
  void hang_up() { socket_.reset(); }
  bool control_is_writable() const {
    return Mapping::map(
               {control_fd_.get(), 0, welcome_.control_bytes, Access::kReadWrite, nullptr, 0})
        .has_value();
  }
  void ring_node();
  // The answer with this cookie.
  protocol::Answer wait_answer(std::uint64_t cookie);

 private:
  Result<void> welcome_came(ReceivedMessage message);

  std::uint64_t nonce_ = 0;
  FileDescriptor socket_, keeper_pipe_;
  EventFd node_doorbell_, client_doorbell_;
  Mapping control_, value_, channel_memory_;
  FileDescriptor control_fd_, value_fd_, channel_fd_;
  segment::ControlArea area_;
  segment::ChannelView channel_;
  protocol::WelcomeFrame welcome_;
  std::optional<protocol::Session> session_;
  std::uint32_t value_len_ = 0;
  std::uint64_t next_cookie_ = 1;
};

}  // namespace orlop::process_test
