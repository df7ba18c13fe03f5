// SPDX-License-Identifier: Apache-2.0
// An owned file descriptor: closed when the object ends, moved but never copied.
//
// Guarantees: every descriptor that this room opens, duplicates or receives is close-on-exec.
// Thread: none; one owner.
#pragma once

#include <utility>

#include "orlop/error.h"

namespace orlop {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  // Takes ownership of fd; a negative value is "none".
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = other.release();
    }
    return *this;
  }
  ~FileDescriptor() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  // Gives up ownership without closing.
  int release() { return std::exchange(fd_, -1); }
  // Closes now. errno is left as it was.
  void reset();

  // A second descriptor of the same open file, close-on-exec. Errors: kInvalidArgument (none held),
  // kSystem.
  Result<FileDescriptor> duplicate() const;

 private:
  int fd_ = -1;
};

// Whether both are descriptors of one open file (dup, or sent twice), not only of one file. False
// where the kernel does not tell (kcmp refused, and Linux before 6.10).
bool same_open_file(int a, int b);

struct Pipe {
  FileDescriptor read_end;   // non-blocking
  FileDescriptor write_end;  // non-blocking
};
// A pipe whose end-of-file tells that every holder of the write end has gone.
Result<Pipe> make_pipe();

}  // namespace orlop
