// SPDX-License-Identifier: Apache-2.0
// Contract: what a new keeper finds in the service manager's store: the ledger's memory, and names.
//   * A ledger is read whole or refused with a reason; what was read, written again, reads the
//   same.
//   * judge_store() says yes only when everything that the ledger names is there, once.
//   * A keeper that goes on from it gives no client id that the ledger or a name has, numbers its
//     servers beyond all that were, and can write a ledger that is read again.
//
// Input: a byte that says whether the ledger's memory is damaged or its frame is given; then that;
// then names, each with its length.
#include "protocol/attach/keeper_ledger.h"

#include <algorithm>
#include <optional>
#include <set>

#include "frame_samples.h"
#include "fuzz_target.h"
#include "input.h"
#include "protocol/attach/keeper_machine.h"

namespace orlop::fuzz {
namespace {

using namespace protocol;

constexpr std::size_t kMostNames = 2000;  // more than a store is configured to take

struct alignas(8) Memory {
  std::byte bytes[LedgerPages::kBytes];
};

LedgerPages pages_of(Memory& memory) {
  return LedgerPages(memory.bytes);
}

// Where head and copies begin; behind a ledger's few hundred bytes nothing is read.
void damage(Input& input, Memory& memory) {
  constexpr std::size_t kPlaces[] = {0, kPageBytes, kPageBytes + kMaxFrameBytes};
  for (unsigned n = input.below(8); n > 0; --n) {
    const std::size_t at = kPlaces[input.below(3)] + input.take<std::uint8_t>();
    memory.bytes[at] ^= input.take<std::byte>();
  }
}

// Nothing if nobody would believe it.
std::optional<LedgerFrame> read_ledger(Input& input) {
  static Memory& memory = *new Memory;
  std::ranges::fill(memory.bytes, std::byte{0});
  LedgerPages pages = pages_of(memory);
  if (input.flag()) {
    pages.write(sample_ledger());
    LedgerFrame later = sample_ledger();
    later.next_client = 12;
    if (input.flag()) pages.write(later);
    if (input.below(16) == 1) pages.make_void();
    damage(input, memory);
  } else {
    const auto size = std::min<std::size_t>(input.take<std::uint16_t>(), 1024);
    const auto frame = decode<LedgerFrame>(input.bytes(size));
    if (!frame) return std::nullopt;
    pages.write(*frame);
  }
  const auto read = pages.read();
  if (!read) {
    CHECK(!read.error().message.empty());
    return std::nullopt;
  }
  const Bytes bytes = encode(*read);
  pages.write(*read);
  CHECK(encode(pages.read().value()) == bytes, "what was read can be written");
  pages.make_void();
  CHECK(!pages.read(), "nobody believes a void ledger");
  return *read;
}

std::vector<std::string> needed_names(const LedgerFrame& ledger) {
  std::vector<std::string> names = {std::string(kStoredLedger), std::string(kStoredControl),
                                    std::string(kStoredValue)};
  if (ledger.server != 0) names.push_back(stored_name_of_server(ledger.server));
  for (const HandOverFrame& client : ledger.clients)
    for (const std::string& name : stored_names_of(client.client)) names.push_back(name);
  return names;
}

std::vector<std::string> take_names(Input& input, const LedgerFrame& ledger) {
  std::vector<std::string> names;
  if (input.below(4) != 1) names = needed_names(ledger);
  if (!names.empty() && input.flag())
    names.erase(names.begin() +
                input.below(static_cast<std::uint32_t>(std::min<std::size_t>(names.size(), 256))));
  while (!input.empty() && names.size() < kMostNames) {
    switch (input.below(4)) {
      case 0:
        for (const auto& name : stored_names_of(ClientId{input.take<std::uint32_t>()}))
          names.push_back(name);
        break;
      case 1:
        names.push_back(stored_name_of_server(input.take<std::uint32_t>()));
        break;
      default:
        names.emplace_back(input.short_text());
    }
  }
  return names;
}

void check_judgement(const LedgerFrame& ledger, const std::vector<std::string>& names,
                     const Adoption& adoption) {
  for (const std::string& name : needed_names(ledger))
    CHECK(std::ranges::count(names, name) == 1, "everything that the ledger names is there, once");
  for (const std::string& name : adoption.leftover)
    CHECK(is_stored_name(name) && std::ranges::count(names, name) == 1);
  CHECK(adoption.next_client >= std::max(1U, ledger.next_client));
  CHECK(adoption.last_server >= ledger.server);

  KeeperMachine keeper(ledger, adoption);
  const std::set<std::string> all(names.begin(), names.end());
  const auto effects = keeper.hold({5, 1, 100, {}, "new"});
  CHECK(effects.size() == 1);
  if (const auto* store = std::get_if<keeper_effect::Store>(&effects[0])) {
    CHECK(store->client.value != 0);
    for (const HandOverFrame& client : ledger.clients) CHECK(client.client != store->client);
    for (const std::string& name : stored_names_of(store->client))
      CHECK(!all.contains(name), "an id is given once");
  }
  const auto started = keeper.server_started();
  CHECK(started.size() == 1);
  const auto server = std::get<keeper_effect::StoreServer>(started[0]).server;
  CHECK(server != 0 && !all.contains(stored_name_of_server(server)), "a number is given once");
  CHECK(decode<LedgerFrame>(encode(keeper.ledger())).has_value());
}

}  // namespace

void run_one(std::span<const std::byte> bytes) {
  Input input(bytes);
  const auto ledger = read_ledger(input);
  if (!ledger) return;
  const auto names = take_names(input, *ledger);
  const auto judged = judge_store(*ledger, names);
  if (!judged) {
    CHECK(!judged.error().message.empty());
    return;
  }
  check_judgement(*ledger, names, *judged);
}

std::vector<Seed> make_seeds() {
  const auto memory = [] {
    InputWriter w;
    return w.byte(1).byte(1).byte(0);
  };
  const auto frame = [](const LedgerFrame& ledger) {
    const Bytes bytes = encode(ledger);
    InputWriter w;
    w.byte(0).put(static_cast<std::uint16_t>(bytes.size())).bytes(bytes);
    return w;
  };
  return {
      {"whole", memory().byte(0).byte(0).take()},
      {"damaged", memory().byte(2).byte(0).byte(8).byte(1).byte(1).byte(20).byte(9).take()},
      {"one-missing", memory().byte(0).byte(0).byte(1).byte(4).take()},
      {"a-client-more", memory().byte(0).byte(0).byte(0).byte(0).put<std::uint32_t>(40).take()},
      {"a-server-more", memory().byte(0).byte(0).byte(0).byte(1).put<std::uint32_t>(3).take()},
      {"other-names", memory().byte(0).byte(0).byte(0).byte(2).short_text("orlop-board-1").take()},
      {"foreign", memory().byte(0).byte(0).byte(0).byte(2).short_text("varlink").take()},
      {"frame", frame(sample_ledger()).byte(0).byte(0).take()},
  };
}

}  // namespace orlop::fuzz
