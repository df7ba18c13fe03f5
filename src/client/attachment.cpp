// SPDX-License-Identifier: Apache-2.0
#include "client/attachment.h"

#include <sys/epoll.h>

#include <utility>

#include "platform/memory_file.h"

namespace orlop::client {

namespace {

// Order of the descriptors of a kWelcome (frames.h).
enum : std::size_t { kControl, kValue, kChannel, kNodeBell, kClientBell, kKeeperPipe, kCount };

Result<Mapping> map_whole(FileDescriptor descriptor, std::uint64_t bytes, Access access) {
  auto file = MemoryFile::adopt(std::move(descriptor), bytes);
  if (!file) return std::unexpected(file.error());
  return Mapping::map({.fd = file->fd(), .bytes = bytes, .access = access});
}

Result<void> map_areas(Attachment& made, const protocol::WelcomeFrame& welcome,
                       std::vector<FileDescriptor>& descriptors) {
  auto control =
      map_whole(std::move(descriptors[kControl]), welcome.control_bytes, Access::kReadOnly);
  if (!control) return std::unexpected(control.error());
  auto area = segment::ControlArea::open(control->span());
  if (!area) return std::unexpected(area.error());
  const segment::Geometry& geometry = area->geometry();
  if (area->segment_id() != welcome.segment || geometry.control_bytes != welcome.control_bytes ||
      geometry.value_bytes() != welcome.value_bytes) {
    return fail(ErrorCode::kCorrupt, "attach answer and control area disagree: segment " +
                                         std::to_string(welcome.segment.value) + " against " +
                                         std::to_string(area->segment_id().value) +
                                         ", value bytes " + std::to_string(welcome.value_bytes) +
                                         " against " + std::to_string(geometry.value_bytes()));
  }
  auto value = map_whole(std::move(descriptors[kValue]), welcome.value_bytes, Access::kReadWrite);
  if (!value) return std::unexpected(value.error());
  made.control_memory = std::move(*control);
  made.value_memory = std::move(*value);
  made.value_pages = std::make_unique<ValuePages>(made.value_memory.span());
  made.area = *area;
  return {};
}

Result<void> map_channel(Attachment& made, const protocol::WelcomeFrame& welcome,
                         std::vector<FileDescriptor>& descriptors) {
  const auto geometry = segment::make_channel_geometry(welcome.sizes);
  if (!geometry) return std::unexpected(geometry.error());
  auto memory =
      map_whole(std::move(descriptors[kChannel]), geometry->total_bytes, Access::kReadWrite);
  if (!memory) return std::unexpected(memory.error());
  auto channel = segment::ChannelView::open(memory->span(), *geometry);
  if (!channel) return std::unexpected(channel.error());
  made.channel_memory = std::move(*memory);
  made.channel = *channel;
  return {};
}

Result<void> take_doorbells(Attachment& made, std::vector<FileDescriptor>& descriptors) {
  auto node = EventFd::adopt(std::move(descriptors[kNodeBell]));
  if (!node) return std::unexpected(node.error());
  auto client = EventFd::adopt(std::move(descriptors[kClientBell]));
  if (!client) return std::unexpected(client.error());
  auto answers = EpollLoop::create();
  if (!answers) return std::unexpected(answers.error());
  if (auto added = answers->add(client->fd(), EPOLLIN | EPOLLET, 0); !added) return added;
  made.node_doorbell = std::move(*node);
  made.client_doorbell = std::move(*client);
  made.answers = std::move(*answers);
  made.keeper_pipe = std::move(descriptors[kKeeperPipe]);
  return {};
}

}  // namespace

Result<std::unique_ptr<Attachment>> Attachment::map(const protocol::WelcomeFrame& welcome,
                                                    std::uint64_t nonce,
                                                    std::vector<FileDescriptor> descriptors) {
  if (descriptors.size() != kCount) {
    return fail(ErrorCode::kCorrupt, "attach answer brought " + std::to_string(descriptors.size()) +
                                         " descriptors instead of " + std::to_string(kCount));
  }
  auto made = std::make_unique<Attachment>();
  made->segment = welcome.segment;
  made->client = welcome.client;
  made->nonce = nonce;
  if (auto done = map_areas(*made, welcome, descriptors); !done)
    return std::unexpected(done.error());
  if (auto done = map_channel(*made, welcome, descriptors); !done)
    return std::unexpected(done.error());
  if (auto done = take_doorbells(*made, descriptors); !done) return std::unexpected(done.error());
  made->guarded = std::make_unique<Guarded>(made->area, made->channel, welcome.client);
  return made;
}

}  // namespace orlop::client
