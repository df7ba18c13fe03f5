// SPDX-License-Identifier: Apache-2.0
#include "worker_report.h"

#include <utility>

namespace orlop::matrix {

namespace {
constexpr std::uint64_t kBytes = 4096;
}

Result<SharedReport> SharedReport::map(MemoryFile file) {
  SharedReport report;
  auto mapping = Mapping::map({.fd = file.fd(), .bytes = kBytes, .access = Access::kReadWrite});
  if (!mapping) return std::unexpected(mapping.error());
  report.file_ = std::move(file);
  report.mapping_ = std::move(*mapping);
  return report;
}

Result<SharedReport> SharedReport::create() {
  auto file = MemoryFile::create({.name = "orlop-matrix-report", .bytes = kBytes});
  if (!file) return std::unexpected(file.error());
  return map(std::move(*file));
}

Result<SharedReport> SharedReport::adopt(int fd) {
  auto file = MemoryFile::adopt(FileDescriptor(fd), kBytes);
  if (!file) return std::unexpected(file.error());
  return map(std::move(*file));
}

}  // namespace orlop::matrix
