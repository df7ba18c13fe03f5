// SPDX-License-Identifier: Apache-2.0
#include "node/program_file.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <string_view>

#include "platform/system_error.h"

namespace orlop::node {
namespace {

constexpr const char* kSelf = "/proc/self/exe";

Result<ProgramFile> described(FileDescriptor file, const std::string& path) {
  struct stat found{};
  if (::fstat(file.get(), &found) != 0) return system_failure("fstat(" + path + ")", errno);
  if (!S_ISREG(found.st_mode))
    return fail(ErrorCode::kInvalidArgument, path + " is no regular file");
  ProgramFile program;
  program.device = found.st_dev;
  program.inode = found.st_ino;
  program.bytes = found.st_size;
  program.modified_ns = found.st_mtim.tv_sec * std::int64_t{1'000'000'000} + found.st_mtim.tv_nsec;
  program.file = std::move(file);
  return program;
}

std::string own_path_of_file() {
  char path[PATH_MAX];
  const ssize_t bytes = ::readlink(kSelf, path, sizeof path);
  std::string text(path, bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  constexpr std::string_view kDeleted = " (deleted)";
  if (text.ends_with(kDeleted)) text.resize(text.size() - kDeleted.size());
  return text;
}

std::string absolute(std::string path) {
  if (path.starts_with('/')) return path;
  char folder[PATH_MAX];
  if (::getcwd(folder, sizeof folder) == nullptr) return {};
  return std::string(folder) + "/" + path;
}

}  // namespace

Result<ProgramFile> open_running_program() {
  FileDescriptor file(::open(kSelf, O_RDONLY | O_CLOEXEC));
  if (!file) return system_failure("open(/proc/self/exe)", errno);
  return described(std::move(file), kSelf);
}

Result<ProgramFile> open_program(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return system_failure("open(" + path + ")", errno);
  auto program = described(std::move(file), path);
  // By the descriptor, not by the path: what is checked is what runs.
  if (program && ::access(program->exec_path().c_str(), X_OK) != 0)
    return fail(ErrorCode::kInvalidArgument, path + " is not executable");
  return program;
}

std::string path_of_running_program() {
  // The kernel's word: the path that execve was called with.
  const auto* started_by = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  const std::string path = started_by == nullptr ? "" : absolute(started_by);
  struct stat at_path{};
  struct stat running{};
  const bool same = !path.empty() && !path.starts_with("/proc/") && !path.starts_with("/dev/") &&
                    ::stat(path.c_str(), &at_path) == 0 && ::stat(kSelf, &running) == 0 &&
                    at_path.st_dev == running.st_dev && at_path.st_ino == running.st_ino;
  return same ? path : own_path_of_file();
}

}  // namespace orlop::node
