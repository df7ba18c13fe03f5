// SPDX-License-Identifier: Apache-2.0
#include "platform/service_manager.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "platform/poll_wait.h"
#include "platform/unix_socket.h"

namespace orlop {
namespace {

using ::testing::HasSubstr;

// A datagram socket under an abstract name, named in our environment.
class Manager {
 public:
  Manager() {
    socket_ = FileDescriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    // Only the family: the kernel chooses an abstract name.
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&name), sizeof(sa_family_t)), 0);
    socklen_t bytes = sizeof name;
    ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&name), &bytes);
    const std::string address =
        "@" + std::string(name.sun_path + 1, bytes - offsetof(sockaddr_un, sun_path) - 1);
    ::setenv("NOTIFY_SOCKET", address.c_str(), 1);
  }
  ~Manager() {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_FDS", "LISTEN_PID"})
      ::unsetenv(name);
  }
  // The next message, empty when there is none.
  ReceivedMessage next() {
    auto received = receive_message(socket_.get());
    EXPECT_TRUE(received) << received.error().message;
    return std::move(received->message);
  }
  std::string next_text() {
    const ReceivedMessage message = next();
    return {reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size()};
  }

 private:
  FileDescriptor socket_;
};

TEST(ServiceManager, Absent_does_nothing) {
  ::unsetenv("NOTIFY_SOCKET");
  auto manager = ServiceManager::from_environment();
  ASSERT_TRUE(manager) << manager.error().message;
  EXPECT_FALSE(manager->present());
  EXPECT_FALSE(manager->watchdog());
  EXPECT_TRUE(manager->notify("READY=1"));
  EXPECT_TRUE(manager->store("x", 0));
  EXPECT_FALSE(*manager->barrier());
  EXPECT_TRUE(manager->take_stored().empty());
}

TEST(ServiceManager, Environment_is_read_once_and_taken_out) {
  Manager other_side;
  ::setenv("WATCHDOG_USEC", "3000000", 1);
  auto manager = ServiceManager::from_environment();
  ASSERT_TRUE(manager) << manager.error().message;
  EXPECT_TRUE(manager->present());
  EXPECT_EQ(manager->watchdog(), 3 * kNsPerSecond);
  EXPECT_EQ(::getenv("NOTIFY_SOCKET"), nullptr);
  EXPECT_EQ(::getenv("WATCHDOG_USEC"), nullptr);
}

// In a child, because the numbers begin at 3.
TEST(ServiceManager, Descriptors_of_the_store_come_with_names_and_only_to_their_process) {
  struct Case {
    bool our_pid;
    const char* count;
    int status;  // of the child: how many descriptors it was given
  };
  for (const Case one : {Case{true, "2", 2}, Case{false, "2", 0}, Case{true, "0", 0},
                         Case{true, "two", 0}, Case{true, "9999999", 3}}) {
    EXPECT_EXIT(
        {
          for (int fd = 6; fd < 200; ++fd) ::close(fd);
          for (int fd = 3; fd < 6; ++fd) ::dup2(2, fd);
          ::setenv("LISTEN_PID", std::to_string(::getpid() + (one.our_pid ? 0 : 1)).c_str(), 1);
          ::setenv("LISTEN_FDS", one.count, 1);
          ::setenv("LISTEN_FDNAMES", "orlop-a:orlop-b", 1);
          auto stored = ServiceManager::from_environment().value().take_stored();
          if (!stored.empty() && (stored[0].name != "orlop-a" || stored[1].name != "orlop-b" ||
                                  stored[0].descriptor.get() != 3))
            ::_exit(99);
          if (::getenv("LISTEN_FDS") != nullptr) ::_exit(98);
          ::_exit(static_cast<int>(stored.size()));
        },
        ::testing::ExitedWithCode(one.status), "");
  }
}

TEST(ServiceManager, Messages_and_descriptors_arrive_in_order) {
  Manager other_side;
  auto manager = ServiceManager::from_environment();
  ASSERT_TRUE(manager) << manager.error().message;
  Pipe pipe = make_pipe().value();
  EXPECT_TRUE(manager->notify("READY=1"));
  EXPECT_TRUE(manager->store("orlop-x", pipe.write_end.get()));
  EXPECT_TRUE(manager->remove("orlop-x"));
  EXPECT_EQ(other_side.next_text(), "READY=1");
  ReceivedMessage stored = other_side.next();
  EXPECT_EQ(stored.descriptors.size(), 1u);
  EXPECT_EQ(std::memcmp(stored.bytes.data(), "FDSTORE=1\nFDNAME=orlop-x\nFDPOLL=0", 33), 0);
  EXPECT_EQ(other_side.next_text(), "FDSTOREREMOVE=1\nFDNAME=orlop-x");
}

TEST(ServiceManager, Barrier_ends_when_the_manager_has_read_it) {
  Manager other_side;
  auto manager = ServiceManager::from_environment();
  ASSERT_TRUE(manager) << manager.error().message;
  const auto barrier = manager->barrier();
  ASSERT_TRUE(barrier) << barrier.error().message;
  EXPECT_FALSE(wait_readable(barrier->get(), 0).value());
  {
    const ReceivedMessage message = other_side.next();
    EXPECT_EQ(message.descriptors.size(), 1u);
  }
  EXPECT_TRUE(wait_readable(barrier->get(), 0).value());
}

TEST(ServiceManager, Manager_that_does_not_read_costs_no_waiting_and_nothing_is_lost) {
  Manager other_side;
  auto manager = ServiceManager::from_environment();
  ASSERT_TRUE(manager) << manager.error().message;
  int sent = 0;
  while (!manager->waiting()) ASSERT_TRUE(manager->notify("N=" + std::to_string(sent++)));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(manager->notify("N=" + std::to_string(sent++)));
  for (int i = 0; i < sent; ++i) {
    EXPECT_EQ(other_side.next_text(), "N=" + std::to_string(i));
    EXPECT_TRUE(manager->flush());
  }
  EXPECT_FALSE(manager->waiting());
  // With a limit.
  Result<void> last;
  for (std::size_t i = 0; last && i < 2 * ServiceManager::kMaxWaiting; ++i)
    last = manager->notify("X=1");
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().code, ErrorCode::kLimit);
}

// Of an owner who is busy and does not flush().
TEST(ServiceManager, What_waits_goes_out_with_the_next_message) {
  Manager other_side;
  auto manager = ServiceManager::from_environment();
  ASSERT_TRUE(manager) << manager.error().message;
  int sent = 0;
  while (!manager->waiting()) ASSERT_TRUE(manager->notify("N=" + std::to_string(sent++)));
  for (int i = 0; i + 1 < sent; ++i) EXPECT_EQ(other_side.next_text(), "N=" + std::to_string(i));
  ASSERT_TRUE(manager->notify("LAST=1"));
  EXPECT_FALSE(manager->waiting());
  EXPECT_EQ(other_side.next_text(), "N=" + std::to_string(sent - 1));
  EXPECT_EQ(other_side.next_text(), "LAST=1");
}

TEST(ServiceManager, One_open_file_is_told_from_one_file_opened_twice) {
  const Pipe pipe = make_pipe().value();
  const FileDescriptor copy = pipe.read_end.duplicate().value();
  const std::string path = "/proc/self/fd/" + std::to_string(pipe.read_end.get());
  const FileDescriptor anew(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  ASSERT_TRUE(anew);
  EXPECT_TRUE(same_open_file(pipe.read_end.get(), copy.get()));
  EXPECT_FALSE(same_open_file(pipe.read_end.get(), anew.get()));
  EXPECT_FALSE(same_open_file(pipe.read_end.get(), pipe.write_end.get()));
}

TEST(ServiceManager, Bad_address_is_named) {
  for (const char* address : {"relative", "/", "@"}) {
    ::setenv("NOTIFY_SOCKET", address, 1);
    const auto manager = ServiceManager::from_environment();
    ASSERT_FALSE(manager) << address;
    EXPECT_THAT(manager.error().message, HasSubstr(address));
  }
  ::setenv("NOTIFY_SOCKET", "/nonexistent/orlop/notify", 1);
  EXPECT_FALSE(ServiceManager::from_environment());
  ::unsetenv("NOTIFY_SOCKET");
}

TEST(ServiceManager, Status_is_one_line) {
  EXPECT_EQ(one_line("a\nREADY=0\tb"), "a READY=0 b");
}

}  // namespace
}  // namespace orlop
