// SPDX-License-Identifier: Apache-2.0
#include "protocol/attach/keeper_ledger.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/check.h"

namespace orlop::protocol {
namespace {

constexpr std::string_view kPrefix = "orlop-";
constexpr std::string_view kClientPrefix = "orlop-client-";
constexpr std::string_view kServerPrefix = "orlop-server-";
constexpr const char* kParts[kStoredPerClient] = {"memory",  "node-doorbell", "client-doorbell",
                                                  "process", "fork-pipe",     "keeper-pipe"};

std::unexpected<Error> corrupt(std::string text) {
  return fail(ErrorCode::kCorrupt, std::move(text));
}

// "17" or "17-memory" -> 17.
std::optional<std::uint32_t> leading_number(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number == 0) return std::nullopt;
  if (end != text.data() + text.size() && *end != '-') return std::nullopt;
  return number;
}

// Clients of the ledger: ids grow, none is from the future, and the next one is not 0, "no client".
Result<void> check_clients(const LedgerFrame& ledger) {
  if (ledger.next_client == 0) return corrupt("the ledger's next client id is 0");
  ClientId before;
  for (const HandOverFrame& client : ledger.clients) {
    if (client.client.value <= before.value || client.client.value >= ledger.next_client)
      return corrupt("the ledger's client ids contradict each other");
    before = client.client;
  }
  return {};
}

// Takes what the ledger names out of `rest`; what stays there is leftover.
Result<void> take_needed(const LedgerFrame& ledger, std::map<std::string, unsigned>& rest) {
  std::vector<std::string> needed = {std::string(kStoredLedger), std::string(kStoredControl),
                                     std::string(kStoredValue)};
  if (ledger.server != 0) needed.push_back(stored_name_of_server(ledger.server));
  for (const HandOverFrame& client : ledger.clients) {
    for (std::string& name : stored_names_of(client.client)) needed.push_back(std::move(name));
  }
  for (const std::string& name : needed) {
    if (rest.erase(name) == 0) return corrupt(name + " is missing in the store");
  }
  return {};
}

}  // namespace

// ---- names -----------------------------------------------------------------------------------

std::array<std::string, kStoredPerClient> stored_names_of(ClientId client) {
  std::array<std::string, kStoredPerClient> names;
  for (std::size_t i = 0; i < kStoredPerClient; ++i) {
    names[i] = std::string(kClientPrefix) + std::to_string(client.value) + "-" + kParts[i];
  }
  return names;
}

std::string stored_name_of_server(std::uint32_t server) {
  return std::string(kServerPrefix) + std::to_string(server);
}

bool is_stored_name(std::string_view name) {
  return name.starts_with(kPrefix);
}

std::vector<std::string> areas_first(std::vector<std::string> names) {
  // Not std::stable_partition: Clang calls what libstdc++ 12 has in it deprecated.
  auto front = names.begin();
  for (auto at = names.begin(); at != names.end(); ++at)
    if (*at == kStoredValue || *at == kStoredControl) std::rotate(front++, at, at + 1);
  return names;
}

// ---- judgement -------------------------------------------------------------------------------

Result<Adoption> judge_store(const LedgerFrame& ledger, const std::vector<std::string>& names) {
  std::map<std::string, unsigned> rest;
  for (const std::string& name : names) {
    if (is_stored_name(name) && ++rest[name] > 1) return corrupt(name + " is in the store twice");
  }
  if (rest.empty()) return fail(ErrorCode::kNoNode, "the store has nothing of a node");
  if (!ledger.served) return corrupt("no server had served this segment yet");
  const auto clients = check_clients(ledger);
  if (!clients) return std::unexpected<Error>(clients.error());
  const auto needed = take_needed(ledger, rest);
  if (!needed) return std::unexpected<Error>(needed.error());

  Adoption adoption{ledger.next_client, ledger.server, {}, {}};
  if (ledger.server != 0) {
    adoption.servers.push_back(stored_name_of_server(ledger.server));
    adoption.leftover = adoption.servers;
  }
  for (const auto& [name, count] : rest) {
    if (name.starts_with(kClientPrefix)) {
      const auto id = leading_number(std::string_view(name).substr(kClientPrefix.size()));
      if (!id || *id > kMaxClientId) return corrupt(name + " in the store is no name of ours");
      adoption.next_client = std::max(adoption.next_client, *id + 1);
    } else if (name.starts_with(kServerPrefix)) {
      const auto number = leading_number(std::string_view(name).substr(kServerPrefix.size()));
      if (!number) return corrupt(name + " in the store is no name of ours");
      adoption.last_server = std::max(adoption.last_server, *number);
      adoption.servers.push_back(name);
    } else {
      return corrupt(name + " in the store is unknown to this version");
    }
    adoption.leftover.push_back(name);
  }
  // The next one would be 0, which means that there was none.
  if (adoption.last_server == std::numeric_limits<std::uint32_t>::max())
    return corrupt(stored_name_of_server(adoption.last_server) + " is the last of all numbers");
  return adoption;
}

// ---- memory ----------------------------------------------------------------------------------

namespace {

constexpr std::uint64_t kLedgerMagic = 0x31474c50'4b4c524fULL;  // "ORLKPLG1"

// First page of the memory. current: 0 = void, else the sequence number of the copy that counts.
struct LedgerHead {
  std::uint64_t magic;
  std::uint64_t current;
};
std::atomic_ref<std::uint64_t> word(std::uint64_t& value) {
  return std::atomic_ref<std::uint64_t>(value);
}
LedgerHead& head_of(std::byte* base) {
  return *reinterpret_cast<LedgerHead*>(base);
}

}  // namespace

struct LedgerPages::Copy {
  std::uint64_t sequence;
  std::uint64_t bytes;
  std::uint64_t sum;  // XXH3-64 of the bytes
};

LedgerPages::LedgerPages(std::span<std::byte> memory) : base_(memory.data()) {
  CHECK(memory.size() == kBytes && reinterpret_cast<std::uintptr_t>(base_) % 8 == 0);
}

std::byte* LedgerPages::copy_at(std::uint64_t sequence) const {
  return base_ + kPageBytes + (sequence % 2) * kMaxFrameBytes;
}

void LedgerPages::write(const LedgerFrame& frame) {
  const Bytes bytes = encode(frame);
  CHECK(sizeof(Copy) + bytes.size() <= kMaxFrameBytes);
  LedgerHead& head = head_of(base_);
  const std::uint64_t sequence = word(head.current).load(std::memory_order_relaxed) + 1;
  std::byte* to = copy_at(sequence);
  const Copy copy{sequence, bytes.size(), XXH3_64bits(bytes.data(), bytes.size())};
  std::memcpy(to + sizeof copy, bytes.data(), bytes.size());
  std::memcpy(to, &copy, sizeof copy);
  head.magic = kLedgerMagic;
  // The reader is another process, after our death: only the order of our own stores counts.
  word(head.current).store(sequence, std::memory_order_release);
}

void LedgerPages::make_void() {
  word(head_of(base_).current).store(0, std::memory_order_release);
}

Result<LedgerFrame> LedgerPages::read() const {
  LedgerHead& head = head_of(base_);
  if (head.magic != kLedgerMagic) return corrupt("the ledger was never written");
  const std::uint64_t sequence = word(head.current).load(std::memory_order_acquire);
  if (sequence == 0) return corrupt("the keeper before gave up its ledger");
  const std::byte* from = copy_at(sequence);
  Copy copy{};
  std::memcpy(&copy, from, sizeof copy);
  if (copy.sequence != sequence || copy.bytes > kMaxFrameBytes - sizeof copy ||
      copy.sum != XXH3_64bits(from + sizeof copy, copy.bytes)) {
    return corrupt("the ledger's checksum is wrong");
  }
  return decode<LedgerFrame>({from + sizeof copy, copy.bytes});
}

}  // namespace orlop::protocol
