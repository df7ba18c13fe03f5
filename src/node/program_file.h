// SPDX-License-Identifier: Apache-2.0
// The program file that servers are started from. Held open, so that the program that served well
// can be started again after its file was replaced on disk.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "orlop/error.h"
#include "platform/file_descriptor.h"

namespace orlop::node {

struct ProgramFile {
  FileDescriptor file;
  // What identifies its contents, as far as the system tells.
  dev_t device = 0;
  ino_t inode = 0;
  off_t bytes = 0;
  std::int64_t modified_ns = 0;

  // Path to exec it by, whatever lies at its old path now.
  std::string exec_path() const { return "/proc/self/fd/" + std::to_string(file.get()); }
  bool same_as(const ProgramFile& other) const {
    return device == other.device && inode == other.inode && bytes == other.bytes &&
           modified_ns == other.modified_ns;
  }
};

// The file that this process runs, also when it was replaced or removed. Errors: kSystem.
Result<ProgramFile> open_running_program();
// Errors: kInvalidArgument (no regular file, not executable), kSystem.
Result<ProgramFile> open_program(const std::string& path);
// Where this process's program lies, absolute: the path it was started by (a symbolic link stays
// one, so that it may be pointed at another version), if that is still this file; else the file's
// own path, without the kernel's " (deleted)". Call early: it needs the folder of the start.
std::string path_of_running_program();

}  // namespace orlop::node
