// SPDX-License-Identifier: Apache-2.0
#include "node_memory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "base/check.h"
#include "platform/file_descriptor.h"

namespace orlop::negative_test {

std::unique_ptr<ControlMemory> open_control_memory(const process_test::Daemon& daemon) {
  const std::string folder = "/proc/" + std::to_string(daemon.keeper_pid()) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (gone || target.find("memfd:orlop-control") == std::string::npos) continue;
    struct stat info{};
    CHECK(::stat(entry.path().c_str(), &info) == 0);
    CHECK(::chmod(entry.path().c_str(), 0600) == 0, "ours: it may be made writable");
    const FileDescriptor file(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
    CHECK(::chmod(entry.path().c_str(), info.st_mode & 0777) == 0);
    CHECK(static_cast<bool>(file), "the control area opens for writing");
    auto memory = std::make_unique<ControlMemory>();
    const auto bytes = static_cast<std::uint64_t>(info.st_size);
    memory->mapping = Mapping::map({file.get(), 0, bytes, Access::kReadWrite, nullptr, 0}).value();
    memory->area = segment::ControlArea::open(memory->mapping.span()).value();
    return memory;
  }
  CHECK(false, "the keeper holds its control area");
  return nullptr;
}

}  // namespace orlop::negative_test
