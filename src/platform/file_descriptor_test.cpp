// SPDX-License-Identifier: Apache-2.0
#include "platform/file_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "platform/system_error.h"
#include "platform/test_process.h"

namespace orlop {
namespace {

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

TEST(FileDescriptor, End_of_life_closes) {
  int number = -1;
  {
    FileDescriptor fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    number = fd.get();
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(FileDescriptor, Move_leaves_one_owner) {
  FileDescriptor a(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = a.get();
  FileDescriptor b(std::move(a));
  EXPECT_FALSE(a);
  EXPECT_EQ(b.get(), number);
  FileDescriptor c(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int replaced = c.get();
  c = std::move(b);
  EXPECT_FALSE(is_open(replaced));
  EXPECT_TRUE(is_open(number));
  EXPECT_EQ(c.release(), number);
  EXPECT_TRUE(is_open(number));
  ::close(number);
}

TEST(FileDescriptor, Duplicate_is_close_on_exec) {
  FileDescriptor fd(::open("/dev/null", O_RDONLY));
  auto copy = fd.duplicate();
  ORLOP_ASSERT_OK(copy);
  EXPECT_NE(copy->get(), fd.get());
  EXPECT_EQ(::fcntl(copy->get(), F_GETFD), FD_CLOEXEC);
}

TEST(FileDescriptor, Duplicate_of_none_is_refused) {
  EXPECT_EQ(FileDescriptor().duplicate().error().code, ErrorCode::kInvalidArgument);
}

TEST(FileDescriptor, Closed_behind_the_owner_dies) {
  EXPECT_DEATH(
      {
        FileDescriptor fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        ::close(fd.get());
        fd.reset();
      },
      "behind its owner");
}

TEST(SystemError, Message_names_call_errno_and_remedy) {
  const Error error = system_failure("pipe2", EMFILE).error();
  EXPECT_EQ(error.code, ErrorCode::kSystem);
  EXPECT_EQ(error.message,
            "pipe2 failed: Too many open files (EMFILE); raise the limit of open files of this "
            "process (ulimit -n, LimitNOFILE=)");
  EXPECT_EQ(errno_text(99999), "unknown error (errno 99999)");
}

TEST(Pipe, Out_of_descriptors_says_so) {
  ForkedChild child([] {
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_NOFILE, &none);
    auto pipe = make_pipe();
    return !pipe && pipe.error().message.find("ulimit -n") != std::string::npos ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Pipe, Last_writer_gone_gives_end_of_file) {
  auto pipe = make_pipe();
  ORLOP_ASSERT_OK(pipe);
  char byte = 0;
  EXPECT_EQ(::read(pipe->read_end.get(), &byte, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
  pipe->write_end.reset();
  EXPECT_EQ(::read(pipe->read_end.get(), &byte, 1), 0);
}

}  // namespace
}  // namespace orlop
