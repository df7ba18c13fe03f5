// SPDX-License-Identifier: Apache-2.0
// Contract: the keeper's bookkeeping under any order of servers, holds, drops and the store's
// words.
//   * Every hold is answered at most once; a client id is given once in a segment's life.
//   * With a store: a client is answered after its descriptors are stored and written down, and
//     struck from the ledger before they leave the store; a server gets the memory after its pidfd
//     is stored and written down.
//   * A ledger written at any moment is read again, and the store of that moment is enough for it.
#include "protocol/attach/keeper_machine.h"

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "fuzz_target.h"
#include "input.h"

namespace orlop::fuzz {
namespace {

using namespace protocol;
namespace fx = keeper_effect;

class Model {
 public:
  explicit Model(bool with_store) : machine_(SegmentId{77}, with_store), store_(with_store) {}

  void run(Input& input) {
    for (unsigned n = 0; n < 600 && !input.empty(); ++n) {
      act(input);
      CHECK(machine_.held() <= kMaxClients);
      if (std::exchange(changed_, false)) check_ledger();
    }
    check_ledger();
  }

 private:
  void act(Input& input) {
    switch (input.below(9)) {
      case 0:
        if (!server_) start();
        break;
      case 1:
        if (server_) server_stored(input);
        break;
      case 2:
        if (server_) end();
        break;
      case 3:
        if (has_memory_) carry_out(machine_.serving());
        break;
      case 4:
      case 5:
        if (has_memory_ && machine_.served()) hold(input);
        break;
      case 6:
        stored(input);
        break;
      case 7:
        // Of a client that exists, or not.
        carry_out(machine_.drop(ClientId{1 + input.below(32)}));
        break;
      default:
        if (input.below(16) == 1) lose_store();
    }
  }

  void start() {
    server_ = true;
    handed_over_ = false;
    carry_out(machine_.server_started());
  }
  void server_stored(Input& input) {
    const std::uint32_t number = input.below(4) == 1 ? input.below(8) : wanted_server_;
    if (number == wanted_server_ && number != 0) stored_server_ = number;
    carry_out(machine_.server_stored(number));
  }
  void end() {
    asked_.clear();  // nobody waits any more
    server_ = has_memory_ = false;
    carry_out(machine_.server_ended());
    wanted_server_ = 0;
    pending_.clear();
  }
  void hold(Input& input) {
    const HoldFrame frame{1 + input.below(8), ++attach_, 100, {}, "client"};
    asked_.insert(frame.attach);
    carry_out(machine_.hold(frame));
  }
  void stored(Input& input) {
    ClientId client{1 + input.below(32)};
    if (!pending_.empty() && input.below(4) != 1) client = *pending_.begin();
    if (pending_.erase(client) != 0)
      in_store_.insert(client);
    else if (!in_store_.contains(client))
      return;  // the store has not said so
    carry_out(machine_.stored(client));
  }
  void lose_store() {
    store_ = false;
    written_.reset();
    pending_.clear();
    carry_out(machine_.store_lost());
  }

  void carry_out(const KeeperEffects& effects) {
    changed_ |= !effects.empty();
    for (const KeeperEffect& effect : effects)
      std::visit([this](const auto& e) { apply(e); }, effect);
  }
  void apply(const fx::Store& e) {
    CHECK(store_);
    CHECK(ids_.insert(e.client).second, "an id is given once");
    pending_.insert(e.client);
  }
  void apply(const fx::StoreServer& e) {
    CHECK(store_ && e.server > wanted_server_);
    wanted_server_ = e.server;
  }
  void apply(const fx::WriteLedger&) {
    if (store_) written_ = machine_.ledger();
  }
  void apply(const fx::HandOver&) {
    CHECK(server_ && !handed_over_, "a server gets the memory once");
    if (store_)
      CHECK(written_ && written_->server == wanted_server_ && stored_server_ == wanted_server_,
            "after its pidfd is stored and written down");
    handed_over_ = has_memory_ = true;
    const auto over = machine_.begin_server(Incarnation{++incarnation_});
    CHECK(over.hello.channels == over.channels.size() && over.channels.size() == machine_.held());
    CHECK(over.hello.cold == !machine_.served());
  }
  void apply(const fx::Answer& e) {
    CHECK(asked_.erase(e.frame.attach) == 1, "answered once, and only who waits");
    if (!e.frame.client) {
      CHECK(!e.frame.text.empty());
      return;
    }
    CHECK(machine_.holds(e.frame.client));
    if (!store_) {
      ids_.insert(e.frame.client);
      return;
    }
    CHECK(in_store_.contains(e.frame.client) && names(e.frame.client),
          "after its descriptors are stored and written down");
  }
  void apply(const fx::LetGo& e) {
    CHECK(!machine_.holds(e.client));
    if (store_ && written_) CHECK(!names(e.client), "struck from the ledger first");
    in_store_.erase(e.client);
    pending_.erase(e.client);
  }
  void apply(const fx::ForgetServer& e) {
    if (written_) CHECK(written_->server != e.server);
    if (stored_server_ == e.server) stored_server_ = 0;
  }
  bool names(ClientId client) const {
    if (!written_) return false;
    for (const HandOverFrame& one : written_->clients)
      if (one.client == client) return true;
    return false;
  }

  void check_ledger() {
    const LedgerFrame now = machine_.ledger();
    CHECK(encode(decode<LedgerFrame>(encode(now)).value()) == encode(now));
    if (!store_ || !written_ || !written_->served) return;
    std::vector<std::string> all = {std::string(kStoredLedger), std::string(kStoredControl),
                                    std::string(kStoredValue)};
    for (const auto& clients : {in_store_, pending_})
      for (const ClientId client : clients)
        for (const std::string& name : stored_names_of(client)) all.push_back(name);
    if (stored_server_ != 0) all.push_back(stored_name_of_server(stored_server_));
    const auto judged = judge_store(*written_, all);
    CHECK(judged.has_value(), "the store is enough for the ledger");
    for (const ClientId client : ids_)
      if (in_store_.contains(client)) CHECK(judged->next_client > client.value);
  }

  KeeperMachine machine_;
  bool store_;
  bool changed_ = false;  // since the ledger was looked at
  bool server_ = false, handed_over_ = false, has_memory_ = false;
  std::uint32_t wanted_server_ = 0, stored_server_ = 0;
  std::uint64_t attach_ = 0, incarnation_ = 0;
  std::optional<LedgerFrame> written_;
  std::set<std::uint64_t> asked_;
  std::set<ClientId> ids_, pending_, in_store_;
};

}  // namespace

void run_one(std::span<const std::byte> bytes) {
  Input input(bytes);
  const bool with_store = input.flag();
  Model(with_store).run(input);
}

std::vector<Seed> make_seeds() {
  std::vector<Seed> seeds;
  for (unsigned store = 0; store < 2; ++store) {
    InputWriter life, deaths;
    life.byte(store).byte(0).byte(1).byte(0).byte(3);
    for (int i = 0; i < 5; ++i) life.byte(4).byte(i).byte(6).byte(0).byte(0);
    life.byte(7).byte(1).byte(2).byte(0).byte(1).byte(0).byte(4).byte(3).byte(7).byte(3);
    deaths.byte(store).byte(0).byte(1).byte(0).byte(3).byte(4).byte(1).byte(2).byte(6).byte(0);
    deaths.byte(0).byte(0).byte(2).byte(0).byte(1).byte(1).byte(7).byte(1).byte(0).byte(4).byte(2);
    deaths.byte(8).byte(1);
    const std::string suffix = store != 0 ? "-store" : "";
    seeds.push_back({"life" + suffix, life.take()});
    seeds.push_back({"deaths" + suffix, deaths.take()});
  }
  return seeds;
}

}  // namespace orlop::fuzz
