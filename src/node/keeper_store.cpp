// SPDX-License-Identifier: Apache-2.0
#include "node/keeper_store.h"

#include <utility>

#include "base/check.h"

namespace orlop::node {

Result<void> KeeperStore::begin(const runtime::SegmentFiles& segment) {
  active_ = false;
  before_barrier_.clear();
  after_barrier_.clear();
  barrier_.reset();
  if (!manager_.present()) return {};
  auto file =
      MemoryFile::create({"orlop-ledger", protocol::LedgerPages::kBytes, HugePages::kOff, 0600});
  if (!file) return std::unexpected<Error>(file.error());
  auto mapping = Mapping::map({file->fd(), 0, file->bytes(), Access::kReadWrite, nullptr, 0});
  if (!mapping) return std::unexpected<Error>(mapping.error());
  const std::pair<std::string_view, int> pushed[] = {
      {protocol::kStoredLedger, file->fd()},
      {protocol::kStoredControl, segment.control.fd()},
      {protocol::kStoredValue, segment.value.fd()}};
  for (const auto& [name, fd] : pushed) {
    const auto stored = manager_.store(std::string(name), fd);
    if (!stored) return stored;
  }
  go_on(std::move(*file), std::move(*mapping));
  return {};
}

void KeeperStore::go_on(MemoryFile ledger, Mapping mapping) {
  ledger_file_ = std::move(ledger);
  ledger_ = std::move(mapping);
  active_ = true;
}

Result<void> KeeperStore::push_client(ClientId client, std::span<const int> descriptors,
                                      MonoNs now) {
  CHECK(descriptors.size() == protocol::kStoredPerClient);
  const auto names = protocol::stored_names_of(client);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto stored = manager_.store(names[i], descriptors[i]);
    if (!stored) return stored;
  }
  return push(client, now);
}

Result<void> KeeperStore::push_server(std::uint32_t server, int pidfd, MonoNs now) {
  const auto stored = manager_.store(protocol::stored_name_of_server(server), pidfd);
  if (!stored) return stored;
  return push(server, now);
}

// One barrier at a time: it speaks for everything pushed before it.
Result<void> KeeperStore::push(Item item, MonoNs now) {
  after_barrier_.push_back(item);
  if (barrier_) return {};
  return begin_barrier(now);
}

Result<void> KeeperStore::begin_barrier(MonoNs now) {
  auto barrier = manager_.barrier();
  if (!barrier) return std::unexpected<Error>(barrier.error());
  barrier_ = std::move(*barrier);
  barrier_until_ = now + kStoreLimit;
  before_barrier_ = std::exchange(after_barrier_, {});
  return {};
}

Result<std::vector<KeeperStore::Item>> KeeperStore::barrier_ended(MonoNs now) {
  barrier_.reset();
  auto stored = std::exchange(before_barrier_, {});
  if (!after_barrier_.empty()) {
    const auto next = begin_barrier(now);
    if (!next) return std::unexpected<Error>(next.error());
  }
  return stored;
}

Result<void> KeeperStore::forget_client(ClientId client) {
  const auto names = protocol::stored_names_of(client);
  return forget({names.begin(), names.end()});
}

Result<void> KeeperStore::forget(const std::vector<std::string>& names) {
  for (const std::string& name : protocol::areas_first(names)) {
    const auto removed = manager_.remove(name);
    if (!removed) return removed;
  }
  return {};
}

void KeeperStore::write(const protocol::LedgerFrame& ledger) {
  if (active_) protocol::LedgerPages(ledger_.span()).write(ledger);
}

void KeeperStore::give_up() {
  if (!std::exchange(active_, false)) return;
  protocol::LedgerPages(ledger_.span()).make_void();
  for (const auto name :
       {protocol::kStoredLedger, protocol::kStoredControl, protocol::kStoredValue}) {
    (void)manager_.remove(std::string(name));  // void already; this only saves memory
  }
  ledger_ = {};
  ledger_file_ = {};
  barrier_.reset();
  before_barrier_.clear();
  after_barrier_.clear();
}

}  // namespace orlop::node
