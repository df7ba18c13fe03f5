// SPDX-License-Identifier: Apache-2.0
#include "platform/unix_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "platform/clock.h"
#include "platform/event_fd.h"
#include "platform/memory_file.h"
#include "platform/poll_wait.h"
#include "platform/test_process.h"

namespace orlop {
namespace {

MonoNs soon() {
  return monotonic_ns() + 30 * kNsPerSecond;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
std::string text_of(const ReceivedMessage& message) {
  return {reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size()};
}
std::size_t open_descriptors() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

class Socket : public testing::Test {
 protected:
  UnixListener listen() {
    lock_ = FileLock{};
    auto acquired = FileLock::acquire(path_);
    EXPECT_TRUE(acquired.has_value()) << acquired.error().message;
    if (!acquired) return {};
    lock_ = std::move(*acquired);
    auto listener = UnixListener::listen(path_, lock_);
    EXPECT_TRUE(listener.has_value()) << listener.error().message;
    return listener ? std::move(*listener) : UnixListener{};
  }
  TestFolder folder_;
  std::string path_ = folder_ / "orlop.sock";
  FileLock lock_;
};

TEST_F(Socket, Listen_connect_accept_and_talk) {
  UnixListener listener = listen();
  EXPECT_FALSE((*listener.accept()).has_value());
  auto client = connect_unix(path_, soon());
  ORLOP_ASSERT_OK(client);
  auto server = listener.accept();
  ORLOP_ASSERT_OK(server);
  ASSERT_TRUE(server->has_value());
  for (int fd : {client->get(), (**server).get(), listener.fd()}) {
    EXPECT_EQ(::fcntl(fd, F_GETFD), FD_CLOEXEC);
    EXPECT_NE(::fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
  }
  EXPECT_TRUE(*send_message(client->get(), bytes_of("one")));
  EXPECT_TRUE(*send_message(client->get(), bytes_of("two")));
  EXPECT_EQ(text_of(receive_message((**server).get())->message), "one");
  EXPECT_EQ(text_of(receive_message((**server).get())->message), "two");
  EXPECT_EQ(receive_message((**server).get())->state, ReceiveState::kWouldBlock);
  client->reset();
  EXPECT_EQ(receive_message((**server).get())->state, ReceiveState::kEnd);
  auto closed = send_message((**server).get(), bytes_of("x"));  // and no SIGPIPE
  EXPECT_EQ(closed.error().code, ErrorCode::kClosed);
}

TEST_F(Socket, File_has_mode_0660_whatever_the_umask) {
  const mode_t before = ::umask(0077);
  UnixListener listener = listen();
  ::umask(before);
  struct stat info{};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0660u);
}

TEST_F(Socket, Path_too_long_names_limit_and_path) {
  const std::string path = "/tmp/" + std::string(103, 'x');  // 108 bytes
  auto client = connect_unix(path, soon());
  ASSERT_FALSE(client.has_value());
  EXPECT_EQ(client.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(client.error().message.find("107"), std::string::npos);
  EXPECT_NE(client.error().message.find(path), std::string::npos);
  EXPECT_EQ(UnixListener::listen(path, FileLock{}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(connect_unix("", soon()).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(Socket, Longest_path_works) {
  path_ = folder_ / "";
  path_ += std::string(kMaxSocketPathBytes - path_.size(), 'x');
  UnixListener listener = listen();
  ORLOP_EXPECT_OK(connect_unix(path_, soon()));
}

TEST_F(Socket, Nobody_there_is_no_node) {
  EXPECT_EQ(connect_unix(path_, soon()).error().code, ErrorCode::kNoNode);
  EXPECT_EQ(connect_unix(folder_ / "no/folder", soon()).error().code, ErrorCode::kNoNode);
}

// The file that a killed daemon leaves behind.
void leave_stale_socket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  FileDescriptor dead(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
}

TEST_F(Socket, Stale_socket_is_replaced) {
  leave_stale_socket(path_);
  EXPECT_EQ(connect_unix(path_, soon()).error().code, ErrorCode::kNoNode);
  UnixListener listener = listen();
  ORLOP_EXPECT_OK(connect_unix(path_, soon()));
}

TEST_F(Socket, Socket_of_a_killed_daemon_is_replaced) {
  auto pipe = make_pipe();
  ForkedChild daemon([&] {
    UnixListener listener = listen();
    return ::write(pipe->write_end.get(), "x", 1) == 1 ? sleep_until_killed() : 1;
  });
  ASSERT_TRUE(*wait_readable(pipe->read_end.get(), soon()));
  ORLOP_EXPECT_OK(connect_unix(path_, soon()));
  EXPECT_EQ(FileLock::acquire(path_).error().code, ErrorCode::kAddressInUse);
  daemon.kill_and_wait();
  UnixListener listener = listen();
  ORLOP_EXPECT_OK(connect_unix(path_, soon()));
}

TEST_F(Socket, Occupied_socket_is_refused_and_left_alone) {
  UnixListener listener = listen();
  // Somebody who does not use our lock answers there.
  std::filesystem::remove(path_ + ".lock");
  auto other_lock = FileLock::acquire(path_);
  ORLOP_ASSERT_OK(other_lock);
  auto second = UnixListener::listen(path_, *other_lock);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kAddressInUse);
  ORLOP_EXPECT_OK(connect_unix(path_, soon()));
}

TEST_F(Socket, File_that_is_no_socket_is_left_alone) {
  std::ofstream(path_) << "precious";
  auto lock = FileLock::acquire(path_);
  ORLOP_ASSERT_OK(lock);
  EXPECT_EQ(UnixListener::listen(path_, *lock).error().code, ErrorCode::kAddressInUse);
  EXPECT_TRUE(std::filesystem::is_regular_file(path_));
}

TEST_F(Socket, Listen_without_the_lock_of_this_path_is_refused) {
  EXPECT_EQ(UnixListener::listen(path_, FileLock{}).error().code, ErrorCode::kInvalidArgument);
  auto other = FileLock::acquire(folder_ / "other");
  EXPECT_EQ(UnixListener::listen(path_, *other).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(Socket, Close_removes_only_our_own_path) {
  UnixListener listener = listen();
  UnixListener moved = std::move(listener);
  EXPECT_TRUE(std::filesystem::exists(path_));
  moved.close();
  EXPECT_FALSE(std::filesystem::exists(path_));

  UnixListener again = listen();
  std::filesystem::remove(path_);
  std::ofstream(path_) << "somebody else's";
  again.close();
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(Socket, Listener_handed_over_goes_on_listening) {
  UnixListener listener = listen();
  auto adopted = UnixListener::adopt(std::move(*listener.descriptor().duplicate()));
  ORLOP_ASSERT_OK(adopted);
  listener.forget_path();
  listener.close();
  ORLOP_EXPECT_OK(connect_unix(path_, soon()));
  EXPECT_TRUE((*adopted->accept()).has_value());
  auto pair = make_socket_pair();
  EXPECT_EQ(UnixListener::adopt(std::move(pair->first)).error().code, ErrorCode::kCorrupt);
}

TEST_F(Socket, Full_backlog_waits_until_the_deadline_only) {
  UnixListener listener = listen();
  std::vector<FileDescriptor> waiting;
  for (;;) {
    auto client = connect_unix(path_, monotonic_ns() + 5 * kNsPerMs);
    if (!client) {
      EXPECT_EQ(client.error().code, ErrorCode::kDeadline) << client.error().message;
      break;
    }
    waiting.push_back(std::move(*client));
    ASSERT_LT(waiting.size(), 10000u);
  }
  EXPECT_EQ(connect_unix(path_, 0).error().code, ErrorCode::kDeadline);
  EXPECT_TRUE((*listener.accept()).has_value());
  ORLOP_EXPECT_OK(connect_unix(path_, soon()));
}

TEST_F(Socket, Other_user_is_refused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  UnixListener listener = listen();
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
  ForkedChild child([&] {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) return 2;
    auto client = connect_unix(path_, soon());
    return !client && client.error().code == ErrorCode::kRefused ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(UnixMessage, Descriptors_arrive_open_and_close_on_exec) {
  auto pair = make_socket_pair();
  auto file = MemoryFile::create({.name = "orlop-sent", .bytes = 4096});
  auto bell = EventFd::create();
  ORLOP_ASSERT_OK(pair);
  const int sent[] = {file->fd(), bell->fd()};
  EXPECT_TRUE(*send_message(pair->first.get(), bytes_of("hello"), sent));
  auto received = receive_message(pair->second.get());
  ORLOP_ASSERT_OK(received);
  ASSERT_EQ(received->message.descriptors.size(), 2u);
  for (const FileDescriptor& fd : received->message.descriptors) {
    EXPECT_EQ(::fcntl(fd.get(), F_GETFD), FD_CLOEXEC);
  }
  auto adopted = MemoryFile::adopt(std::move(received->message.descriptors[0]), 4096);
  ORLOP_ASSERT_OK(adopted);
  ORLOP_EXPECT_OK(EventFd::adopt(std::move(received->message.descriptors[1])));
}

TEST(UnixMessage, Between_processes_memory_is_shared) {
  auto pair = make_socket_pair();
  ORLOP_ASSERT_OK(pair);
  ForkedChild child([&] {
    auto file = MemoryFile::create({.name = "orlop-child", .bytes = 4096});
    if (!file || ::pwrite(file->fd(), "from child", 10, 0) != 10) return 1;
    const int fd = file->fd();
    return send_message(pair->second.get(), bytes_of("take"), {&fd, 1}).value_or(false) ? 0 : 2;
  });
  EXPECT_EQ(child.wait(), 0);  // the message outlives its sender
  auto received = receive_message(pair->first.get());
  ORLOP_ASSERT_OK(received);
  ASSERT_EQ(received->message.descriptors.size(), 1u);
  char text[11] = {};
  EXPECT_EQ(::pread(received->message.descriptors[0].get(), text, 10, 0), 10);
  EXPECT_STREQ(text, "from child");
}

TEST(UnixMessage, Too_many_descriptors_are_an_error_and_none_leaks) {
  auto pair = make_socket_pair();
  const int sent[] = {0, 0, 0};
  for (std::size_t allowed : {0u, 1u, 2u}) {
    const std::size_t before = open_descriptors();
    EXPECT_TRUE(*send_message(pair->first.get(), bytes_of("x"), sent));
    auto received = receive_message(pair->second.get(), 100, allowed);
    ASSERT_FALSE(received.has_value()) << allowed;
    EXPECT_EQ(received.error().code, ErrorCode::kLimit);
    EXPECT_NE(received.error().message.find("MSG_CTRUNC"), std::string::npos);
    EXPECT_EQ(open_descriptors(), before);
  }
  EXPECT_TRUE(*send_message(pair->first.get(), bytes_of("x"), sent));
  EXPECT_EQ(receive_message(pair->second.get(), 100, 3)->message.descriptors.size(), 3u);
}

TEST(UnixMessage, Lost_descriptors_are_told_with_the_bytes_when_asked_for) {
  auto pair = make_socket_pair();
  const int sent[] = {0, 0, 0};
  const std::size_t before = open_descriptors();
  EXPECT_TRUE(*send_message(pair->first.get(), bytes_of("x"), sent));
  auto received = receive_message(pair->second.get(), 100, 2, LostDescriptors::kTell);
  ORLOP_ASSERT_OK(received);
  EXPECT_EQ(received->state, ReceiveState::kMessage);
  EXPECT_TRUE(std::ranges::equal(received->message.bytes, bytes_of("x")));
  EXPECT_TRUE(received->message.descriptors_lost);
  EXPECT_TRUE(received->message.descriptors.empty());
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_NE(lost_descriptors_text().find("ulimit -n"), std::string::npos);
  EXPECT_TRUE(*send_message(pair->first.get(), bytes_of("y"), sent));
  EXPECT_FALSE(receive_message(pair->second.get(), 100, 3, LostDescriptors::kTell)
                   ->message.descriptors_lost);
}

TEST(UnixMessage, Receiver_out_of_descriptors_is_told) {
  auto pair = make_socket_pair();
  const int sent[] = {0, 0, 0, 0};
  EXPECT_TRUE(*send_message(pair->first.get(), bytes_of("x"), sent));
  ForkedChild child([&] {
    // Room for one of the four.
    const int probe = ::dup(0);
    const rlimit tight{static_cast<rlim_t>(probe) + 1, static_cast<rlim_t>(probe) + 1};
    ::close(probe);
    if (::setrlimit(RLIMIT_NOFILE, &tight) != 0) return 2;
    auto received = receive_message(pair->second.get());
    if (received || received.error().code != ErrorCode::kLimit) return 1;
    return ::dup(0) == probe ? 0 : 3;  // the one that came was closed
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(UnixMessage, Too_long_message_is_an_error_and_its_descriptors_are_closed) {
  auto pair = make_socket_pair();
  const int sent[] = {0};
  const std::size_t before = open_descriptors();
  EXPECT_TRUE(*send_message(pair->first.get(), bytes_of("0123456789"), sent));
  auto received = receive_message(pair->second.get(), 9);
  ASSERT_FALSE(received.has_value());
  EXPECT_EQ(received.error().code, ErrorCode::kLimit);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(UnixMessage, Empty_message_with_descriptors_ends_the_connection_and_leaks_none) {
  auto pair = make_socket_pair();
  // What a hostile peer can do with sendmsg itself.
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  const std::size_t before = open_descriptors();
  ASSERT_EQ(::sendmsg(pair->first.get(), &header, 0), 0);
  auto received = receive_message(pair->second.get());
  ORLOP_ASSERT_OK(received);
  EXPECT_EQ(received->state, ReceiveState::kEnd);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(UnixMessage, Limits_of_sending_are_told_before_anything_is_sent) {
  auto pair = make_socket_pair();
  const std::vector<std::byte> big(kMaxMessageBytes + 1);
  const std::vector<int> many(kMaxMessageDescriptors + 1, 0);
  EXPECT_EQ(send_message(pair->first.get(), {}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(send_message(pair->first.get(), big).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(send_message(pair->first.get(), bytes_of("x"), many).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(receive_message(pair->second.get())->state, ReceiveState::kWouldBlock);
  const std::vector<int> most(kMaxMessageDescriptors, 0);
  EXPECT_TRUE(*send_message(pair->first.get(), std::span(big).first(kMaxMessageBytes), most));
  auto received = receive_message(pair->second.get());
  ORLOP_ASSERT_OK(received);
  EXPECT_EQ(received->message.bytes.size(), kMaxMessageBytes);
  EXPECT_EQ(received->message.descriptors.size(), kMaxMessageDescriptors);
}

TEST(UnixMessage, Full_queue_is_told_and_ends_when_read) {
  auto pair = make_socket_pair();
  const std::vector<std::byte> block(16 * 1024);
  int sent = 0;
  while (*send_message(pair->first.get(), block)) ASSERT_LT(++sent, 10000);
  EXPECT_GT(sent, 0);
  for (int i = 0; i < sent; ++i) {
    EXPECT_EQ(receive_message(pair->second.get())->state, ReceiveState::kMessage);
  }
  EXPECT_TRUE(*send_message(pair->first.get(), block));
}

TEST(UnixMessage, Peer_gone_with_unread_messages_is_the_end) {
  auto pair = make_socket_pair();
  EXPECT_TRUE(*send_message(pair->first.get(), bytes_of("never read")));
  pair->second.reset();
  EXPECT_EQ(receive_message(pair->first.get())->state, ReceiveState::kEnd);
}

}  // namespace
}  // namespace orlop
