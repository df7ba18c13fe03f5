// SPDX-License-Identifier: Apache-2.0
// One daemon per socket: an exclusive flock on "<socket>.lock".
//
// The kernel drops the lock when the last descriptor of it closes, so a killed daemon leaves none.
// A process forked (without exec) from the holder holds it too. The file itself stays: removing it
// would let two daemons lock two files of one name.
#pragma once

#include <string>

#include "orlop/error.h"
#include "platform/file_descriptor.h"

namespace orlop {

class FileLock {
 public:
  FileLock() = default;
  // Locks socket_path + ".lock" without waiting and writes our pid into it, if the disk takes it.
  // Errors: kAddressInUse (owned; the message names the owner's pid), kRefused (may not create or
  // open it), kSystem.
  static Result<FileLock> acquire(const std::string& socket_path);

  bool held() const { return static_cast<bool>(descriptor_); }
  const std::string& path() const { return path_; }  // of the lock file
  int fd() const { return descriptor_.get(); }

 private:
  FileDescriptor descriptor_;
  std::string path_;
};

}  // namespace orlop
