// SPDX-License-Identifier: Apache-2.0
#include "runtime/channel_files.h"

#include <utility>

namespace orlop::runtime {
namespace {

Result<void> map_memory(ChannelFiles& files) {
  auto mapping =
      Mapping::map({files.memory.fd(), 0, files.memory.bytes(), Access::kReadWrite, nullptr, 0});
  if (!mapping) return std::unexpected<Error>(mapping.error());
  files.mapping = std::move(*mapping);
  (void)files.mapping.advise_small();  // sparse: ledger and plans are mostly unused
  return {};
}

}  // namespace

std::array<int, kChannelFds> ChannelFiles::descriptors() const {
  return {memory.fd(), node_doorbell.fd(), client_doorbell.fd(), process.fd(), fork_pipe.get()};
}

Result<ChannelFiles> create_channel(const segment::ChannelGeometry& geometry, PidFd process,
                                    FileDescriptor fork_pipe) {
  ChannelFiles files;
  auto memory = MemoryFile::create({"orlop-channel", geometry.total_bytes, HugePages::kOff, 0600});
  if (!memory) return std::unexpected<Error>(memory.error());
  files.memory = std::move(*memory);
  auto node_doorbell = EventFd::create();
  if (!node_doorbell) return std::unexpected<Error>(node_doorbell.error());
  files.node_doorbell = std::move(*node_doorbell);
  auto client_doorbell = EventFd::create();
  if (!client_doorbell) return std::unexpected<Error>(client_doorbell.error());
  files.client_doorbell = std::move(*client_doorbell);
  files.process = std::move(process);
  files.fork_pipe = std::move(fork_pipe);
  const auto mapped = map_memory(files);
  if (!mapped) return std::unexpected<Error>(mapped.error());
  return files;
}

Result<ChannelFiles> adopt_channel(std::vector<FileDescriptor> descriptors,
                                   const segment::ChannelGeometry& geometry) {
  if (descriptors.size() != kChannelFds) {
    return fail(ErrorCode::kCorrupt,
                "channel: " + std::to_string(descriptors.size()) + " descriptors, not 5");
  }
  const auto take = [&](ChannelFd which) {
    return std::move(descriptors[static_cast<std::size_t>(which)]);
  };
  ChannelFiles files;
  auto memory = MemoryFile::adopt(take(ChannelFd::kMemory), geometry.total_bytes);
  if (!memory) return std::unexpected<Error>(memory.error());
  files.memory = std::move(*memory);
  auto node_doorbell = EventFd::adopt(take(ChannelFd::kNodeDoorbell));
  if (!node_doorbell) return std::unexpected<Error>(node_doorbell.error());
  files.node_doorbell = std::move(*node_doorbell);
  auto client_doorbell = EventFd::adopt(take(ChannelFd::kClientDoorbell));
  if (!client_doorbell) return std::unexpected<Error>(client_doorbell.error());
  files.client_doorbell = std::move(*client_doorbell);
  auto process = PidFd::adopt(take(ChannelFd::kProcess));
  if (!process) return std::unexpected<Error>(process.error());
  files.process = std::move(*process);
  files.fork_pipe = take(ChannelFd::kForkPipe);
  const auto mapped = map_memory(files);
  if (!mapped) return std::unexpected<Error>(mapped.error());
  return files;
}

}  // namespace orlop::runtime
