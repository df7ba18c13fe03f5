// SPDX-License-Identifier: Apache-2.0
#include "node/take_over.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/units.h"
#include "node/option_table.h"
#include "platform/clock.h"
#include "platform/process.h"
#include "runtime/channel_files.h"

namespace orlop::node {
namespace {

using protocol::LedgerFrame;

using ByName = std::map<std::string, FileDescriptor>;

std::unexpected<Error> refused(std::string why) {
  return fail(ErrorCode::kCorrupt, std::move(why));
}

FileDescriptor take(ByName& stored, std::string_view name) {
  const auto found = stored.find(std::string(name));
  return found == stored.end() ? FileDescriptor() : std::move(found->second);
}

// The memory that this configuration asks for is the one that is there.
Result<void> same_memory(const LedgerFrame& ledger, const NodeOptions& options,
                         runtime::SegmentFiles& segment) {
  const auto wanted = runtime::geometry_of(options.memory);
  if (!wanted) return std::unexpected<Error>(wanted.error());
  if (wanted->value_bytes() != ledger.value_bytes || wanted->slab_bytes != ledger.slab_bytes ||
      wanted->control_bytes != ledger.control_bytes) {
    return refused("the configuration changed: " + format_bytes(wanted->value_bytes()) +
                   " in slabs of " + format_bytes(wanted->slab_bytes) + ", kept are " +
                   format_bytes(ledger.value_bytes) + " in slabs of " +
                   format_bytes(ledger.slab_bytes));
  }
  segment.geometry = *wanted;
  return {};
}

Result<void> take_areas(ByName& stored, TakenOver& out) {
  const LedgerFrame& ledger = out.ledger;
  auto control = MemoryFile::adopt(take(stored, protocol::kStoredControl), ledger.control_bytes);
  if (!control) return std::unexpected<Error>(control.error());
  auto value = MemoryFile::adopt(take(stored, protocol::kStoredValue), ledger.value_bytes);
  if (!value) return std::unexpected<Error>(value.error());
  if (inode_of(control->fd()) != ledger.control_inode ||
      inode_of(value->fd()) != ledger.value_inode)
    return refused("the memory in the store is not the one that the ledger was written for");
  auto mapping = Mapping::map({control->fd(), 0, control->bytes(), Access::kReadWrite, nullptr, 0});
  if (!mapping) return std::unexpected<Error>(mapping.error());
  const auto area = segment::ControlArea::open(mapping->span());
  if (!area) return std::unexpected<Error>(area.error());
  if (area->segment_id() != ledger.segment || area->geometry() != out.segment.geometry)
    return refused("the control area is of another segment than the ledger");
  out.segment.id = ledger.segment;
  out.segment.control = std::move(*control);
  out.segment.value = std::move(*value);
  out.segment.touched_bytes = ledger.touched_bytes;
  out.segment.huge_bytes = ledger.huge_bytes;
  for (const auto& [node, bytes] : protocol::parse_placement(ledger.placement))
    out.segment.bytes_by_node[node] = bytes;
  return {};
}

Result<void> check_keeper_pipe(const FileDescriptor& pipe) {
  struct stat found{};
  const int flags = ::fcntl(pipe.get(), F_GETFL);
  if (flags < 0 || ::fstat(pipe.get(), &found) != 0 || !S_ISFIFO(found.st_mode) ||
      (flags & O_ACCMODE) != O_WRONLY) {
    return refused("is no write end of a pipe");
  }
  return {};
}

// Memory keeps how it was made; that is no reason to lose what is in it.
void tell_making(const LedgerFrame& ledger, const NodeOptions& options) {
  const std::string now = making_of(options);
  if (now == ledger.made_with) return;
  LOG_WARN("setting_not_taken_up", {"setting", ledger.made_with + " -> " + now},
           {"reason", "the memory of the node before is kept; the next cold start takes it up"});
}

// Each is what its name says; the channel can be mapped.
Result<void> check_channel(const KeptDescriptors& kept, const protocol::HandOverFrame& frame) {
  const auto geometry = segment::make_channel_geometry(frame.sizes);
  if (!geometry) return std::unexpected<Error>(geometry.error());
  std::vector<FileDescriptor> copies;
  for (std::size_t i = 0; i < runtime::kChannelFds; ++i) {
    auto copy = kept[i].duplicate();
    if (!copy) return std::unexpected<Error>(copy.error());
    copies.push_back(std::move(*copy));
  }
  const auto channel = runtime::adopt_channel(std::move(copies), *geometry);
  if (!channel) return std::unexpected<Error>(channel.error());
  return check_keeper_pipe(kept[runtime::kChannelFds]);
}

Result<void> take_channels(ByName& stored, TakenOver& out) {
  for (const protocol::HandOverFrame& frame : out.ledger.clients) {
    const auto names = protocol::stored_names_of(frame.client);
    KeptDescriptors kept;
    for (std::size_t i = 0; i < names.size(); ++i) kept[i] = take(stored, names[i]);
    const auto checked = check_channel(kept, frame);
    if (!checked) {
      return refused("client " + std::to_string(frame.client.value) + ": " +
                     checked.error().message);
    }
    out.channels.emplace(frame.client, std::move(kept));
  }
  return {};
}

// The last step, because it cannot be taken back. A server dies with its keeper, but not at once.
Result<void> bury_servers(ByName& stored, const protocol::Adoption& adoption) {
  for (const std::string& name : adoption.servers) {
    auto process = PidFd::adopt(take(stored, name));
    if (!process) return refused(name + ": " + process.error().message);
    (void)process->send_signal(SIGKILL);
    const auto dead = process->wait_exit(monotonic_ns() + kKillLimit);
    if (!dead) return std::unexpected<Error>(dead.error());
    if (!*dead) return refused(name + " does not die; its memory cannot be used again");
  }
  return {};
}

Result<void> open_ledger(ByName& stored, TakenOver& out) {
  auto file =
      MemoryFile::adopt(take(stored, protocol::kStoredLedger), protocol::LedgerPages::kBytes);
  if (!file) return refused("the ledger is missing or is none: " + file.error().message);
  out.ledger_file = std::move(*file);
  auto mapping = Mapping::map(
      {out.ledger_file.fd(), 0, out.ledger_file.bytes(), Access::kReadWrite, nullptr, 0});
  if (!mapping) return std::unexpected<Error>(mapping.error());
  out.ledger_memory = std::move(*mapping);
  auto ledger = protocol::LedgerPages(out.ledger_memory.span()).read();
  if (!ledger) return std::unexpected<Error>(ledger.error());
  out.ledger = std::move(*ledger);
  return {};
}

Result<void> take_all(ByName& stored, const std::vector<std::string>& names,
                      const NodeOptions& options, TakenOver& out) {
  const auto opened = open_ledger(stored, out);
  if (!opened) return opened;
  auto adoption = protocol::judge_store(out.ledger, names);
  if (!adoption) return std::unexpected<Error>(adoption.error());
  out.adoption = std::move(*adoption);
  const auto same = same_memory(out.ledger, options, out.segment);
  if (!same) return same;
  const auto areas = take_areas(stored, out);
  if (!areas) return areas;
  const auto channels = take_channels(stored, out);
  if (!channels) return channels;
  return bury_servers(stored, out.adoption);
}

}  // namespace

std::uint64_t inode_of(int fd) {
  struct stat found{};
  return ::fstat(fd, &found) == 0 ? found.st_ino : 0;
}

std::string making_of(const NodeOptions& options) {
  std::string text;
  for (const char* key : {"memory.touch", "memory.huge", "memory.numa"})
    text += (text.empty() ? "" : ", ") + std::string(key) + " = " + find_option(key)->get(options);
  return text;
}

Result<TakenOver> take_over(std::vector<StoredDescriptor> stored, const NodeOptions& options) {
  std::vector<std::string> names;
  ByName by_name;  // of a name that is there twice the first stays; judge_store() sees both
  for (StoredDescriptor& one : stored) {
    names.push_back(one.name);
    by_name.emplace(one.name, std::move(one.descriptor));
  }
  if (std::ranges::none_of(names, protocol::is_stored_name))
    return fail(ErrorCode::kNoNode, "the service manager's store has nothing of a node");
  TakenOver out;
  const auto taken = take_all(by_name, names, options, out);
  if (taken) {
    tell_making(out.ledger, options);
    return out;
  }
  // So that no later keeper believes it, whatever becomes of the store.
  if (out.ledger_memory) protocol::LedgerPages(out.ledger_memory.span()).make_void();
  return std::unexpected<Error>(taken.error());
}

}  // namespace orlop::node
