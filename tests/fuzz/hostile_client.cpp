// SPDX-License-Identifier: Apache-2.0
#include "hostile_client.h"

#include <cstring>

#include "base/rng.h"

namespace orlop::fuzz {

using namespace protocol;

namespace {

constexpr std::byte kPlanMark{0xa5};

template <class T>
void append(std::vector<std::byte>& to, std::span<const T> items) {
  const auto bytes = std::as_bytes(items);
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

HostileClient::HostileClient(Host& host, ClientId client, ClientId victim)
    : host_(host), client_(client), victim_(victim), server_(host, client, [&]() -> const auto& {
        channel_.format(client);
        std::ranges::fill(channel_.view().plans().first(4096), kPlanMark);
        return channel_.view();
      }()) {}

void HostileClient::check_plans() const {
  for (const std::byte one : channel_.view().plans().first(4096))
    CHECK(one == kPlanMark, "the node never writes the plans");
}

void HostileClient::push(const segment::RingMessage& message) const {
  segment::Atomic<std::uint32_t>& tail = channel_.view().header().request_tail;
  channel_.view().request_cells()[tail.load() % segment::kRingCells] = message;
  tail.store(tail.load() + 1);
}

// Its own, or the victim's: both count from 1.
std::uint64_t HostileClient::put_id(Input& input) const {
  const std::uint64_t sequence = input.below(16);
  return make_put_id(input.below(8) == 1 ? victim_ : client_, sequence).value;
}

std::vector<KeyId> HostileClient::some_keys(Input& input) const {
  std::vector<KeyId> keys;
  for (std::uint32_t n = input.below(24); n > 0; --n)
    keys.push_back(host_key(input.take<std::uint8_t>()));
  return keys;
}

std::vector<std::byte> HostileClient::put_start_body(Input& input,
                                                     segment::RingMessage& message) const {
  constexpr std::uint32_t kLengths[] = {256, 5000, 4096, 0, 70'000};
  std::vector<std::byte> body;
  const auto keys = some_keys(input);
  std::vector<std::uint32_t> groups;
  for (std::uint32_t n = input.below(8); n > 0; --n) groups.push_back(input.below(6));
  const bool parent = input.flag();
  message.args[0] = put_id(input);
  message.args[1] = input.below(6) | std::uint64_t{keys.size()} << 32;
  message.args[2] = kLengths[input.below(5)] | std::uint64_t{groups.size()} << 32;
  message.args[3] = input.take<std::uint16_t>();
  message.args[4] = parent ? std::uint64_t{kHasParent} : 0;
  append(body, std::span<const KeyId>(keys));
  append(body, std::span<const std::uint32_t>(groups));
  const KeyId before = host_key(input.take<std::uint8_t>());
  if (parent) append(body, std::span<const KeyId>(&before, 1));
  return body;
}

// What it was granted, with sums that it makes up; or anything.
std::vector<std::byte> HostileClient::commit_body(Input& input,
                                                  segment::RingMessage& message) const {
  std::vector<CommitEntry> entries;
  const auto checksum = [&input] {
    auto value = input.take<std::uint64_t>();
    return splitmix64(value);  // damage.cpp says why
  };
  if (input.below(4) != 1) {
    message.args[0] = server_.granted_put().value;
    for (const SlotGrant& grant : server_.grants())
      if (grant.slot != 0) entries.push_back({grant.slot, grant.generation, checksum()});
    if (input.below(8) == 1 && !entries.empty()) entries.pop_back();
  } else {
    message.args[0] = put_id(input);
    for (std::uint32_t n = input.below(8); n > 0; --n)
      entries.push_back({input.take<std::uint8_t>(), input.below(8), checksum()});
  }
  message.args[1] = entries.size();
  std::vector<std::byte> body;
  append(body, std::span<const CommitEntry>(entries));
  return body;
}

std::vector<std::byte> HostileClient::report_body(Input& input) const {
  const SlotId slot{1 + input.below(Host::kSlots)};
  const segment::SlotRow& row = host_.area().slot(slot);
  MismatchReport report{row.load_key(), row.load_ns().value, slot.value,
                        row.load_word().generation.value, 0};
  if (input.below(4) == 1) report.ns ^= input.take<std::uint8_t>();
  if (input.below(4) == 1) report.slot ^= input.take<std::uint32_t>();
  std::vector<std::byte> body;
  append(body, std::span<const MismatchReport>(&report, 1));
  return body;
}

std::vector<std::byte> HostileClient::body_of(std::uint32_t code, Input& input,
                                              segment::RingMessage& message) {
  constexpr std::uint32_t kLengths[] = {256, 5000, 4096, 16'384};
  std::vector<std::byte> body;
  switch (static_cast<RequestCode>(code)) {
    case RequestCode::kOpenNamespace: {
      const std::string made = Host::descriptor(input.below(8), kLengths[input.below(4)]);
      const std::string_view text = input.below(4) == 1 ? input.short_text() : made;
      append(body, std::span<const char>(text.data(), text.size()));
      message.args[0] = text.size();
      break;
    }
    case RequestCode::kPutStart:
      return put_start_body(input, message);
    case RequestCode::kPutCommit:
      return commit_body(input, message);
    case RequestCode::kPutAbort:
      message.args[0] = put_id(input);
      break;
    case RequestCode::kRemove: {
      const auto keys = some_keys(input);
      message.args[0] = input.below(6);
      message.args[1] = keys.size();
      append(body, std::span<const KeyId>(keys));
      break;
    }
    case RequestCode::kFlush:
      message.args[0] = input.below(6);
      message.args[1] = input.below(3);
      break;
    case RequestCode::kReportMismatch:
      return report_body(input);
    case RequestCode::kDrain:
      message.args[0] = input.below(4);
      break;
    case RequestCode::kDetach:
    case RequestCode::kPing:
      break;
  }
  return body;
}

void HostileClient::request(Input& input) {
  segment::RingMessage message;
  message.code = input.below(12);
  message.request_id = input.take<std::uint8_t>();
  message.ring_generation = channel_.view().header().ring_generation.load();
  const auto body = body_of(message.code, input, message);
  const std::span<std::byte> arena = channel_.view().arena();
  message.body_offset = input.below(60) * 1024;
  message.body_bytes = 4096;
  if (input.below(8) == 1) message.body_bytes = input.take<std::uint16_t>();
  if (input.below(8) == 1) message.body_offset += input.take<std::uint16_t>();
  if (input.below(16) == 1) message.args[input.below(5)] ^= input.take<std::uint64_t>();
  if (message.body_offset < arena.size()) {
    const std::size_t fits = std::min(body.size(), arena.size() - message.body_offset);
    if (fits > 0) std::memcpy(arena.data() + message.body_offset, body.data(), fits);
  }
  push(message);
}

void HostileClient::raw_message(Input& input) {
  segment::RingMessage message;
  const auto bytes = input.bytes(sizeof message);
  if (!bytes.empty()) std::memcpy(static_cast<void*>(&message), bytes.data(), bytes.size());
  push(message);
}

void HostileClient::scribble(Input& input) {
  const segment::ChannelGeometry& g = channel_.view().geometry();
  const std::uint64_t starts[] = {0,
                                  g.report_offset,
                                  g.request_ring_offset,
                                  g.response_ring_offset,
                                  g.arena_offset,
                                  g.bitmap_offset,
                                  g.cells_offset,
                                  g.touch_offset,
                                  g.missed_offset};
  const std::span<std::byte> span = channel_.span().first(g.plan_offset);
  std::size_t at = starts[input.below(9)] + input.take<std::uint16_t>();
  // Its bytes again and again, over a few or over all that follows.
  const std::size_t bytes = input.below(4) == 1 ? 20'000 : input.take<std::uint8_t>();
  const auto pattern = input.bytes(1 + input.below(32));
  if (pattern.empty()) return;
  for (std::size_t i = 0; i < bytes && at < span.size(); ++i, ++at)
    span[at] = pattern[i % pattern.size()];
}

void HostileClient::counters(Input& input) {
  segment::ChannelHeader& header = channel_.view().header();
  segment::Atomic<std::uint32_t>* const all[] = {&header.request_tail,    &header.response_head,
                                                 &header.client_sleeping, &header.touch_tail,
                                                 &header.ring_generation, &header.missed_tail,
                                                 &header.request_head,    &header.response_tail};
  segment::Atomic<std::uint32_t>& one = *all[input.below(8)];
  if (input.flag()) {
    one.store(one.load() + static_cast<std::uint32_t>(input.take<std::int8_t>()));
  } else {
    one.store(input.take<std::uint32_t>());
  }
}

void HostileClient::pin(Input& input) {
  const SlotId slot{1 + input.below(Host::kSlots)};
  Generation generation = host_.area().slot(slot).load_word().generation;
  if (input.below(4) == 1)
    generation.value += static_cast<std::uint32_t>(input.take<std::int8_t>());
  channel_.view().bitmap()[0].store(input.below(4) == 1 ? ~std::uint64_t{0} : 1);
  channel_.view().cells()[input.below(segment::kCellsPerChunk)].store(
      segment::LedgerCell{slot, generation}.pack());
}

// It resets its rings, or says so, and comes back with the puts that it claims to hold.
void HostileClient::resume(Input& input) {
  std::vector<PutId> held;
  for (std::uint32_t n = input.below(8); n > 0; --n)
    held.push_back(make_put_id(client_, input.below(16)));
  segment::ChannelHeader& header = channel_.view().header();
  if (input.below(4) != 1) {
    header.request_tail.store(0);
    header.response_head.store(0);
  }
  const std::uint32_t generation = header.ring_generation.load() + input.below(3);
  header.ring_generation.store(generation);
  server_.stop();
  host_.step(event::ClientLost{client_});
  server_.start(generation);
  host_.step(event::ClientResumed{client_, held});
}

}  // namespace orlop::fuzz
