// SPDX-License-Identifier: Apache-2.0
// Contract: the client's half of a channel against a node that writes anything into it: an old one,
// a damaged one, one that lies.
//   * Nothing of it ends the client's process (an engine): what is wrong is kBroken, and from then
//   on
//     the session is lost until it was reset and resumed.
//   * An answer that is given out belongs to a request that somebody waits for, once; grants and
//     outcomes are as many as were asked for, outcomes are known ones, texts keep to their limit.
//   * A plan blob is made of slots that lie in the value area, or of none; it and other blobs do
//   not
//     overlap, and the node's writes never change it.
//   * After a reset that was acknowledged the arena is free again, whatever happened before.
#include "protocol/session/session.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "fuzz_target.h"
#include "host.h"
#include "input.h"

namespace orlop::fuzz {
namespace {

using namespace protocol;

constexpr ClientId kClient{3};

class World {
 public:
  World() : session_((prepare(), host().area()), channel().view(), kClient) {}

  void run(Input& input) {
    for (unsigned n = 0; n < 600 && !input.empty(); ++n) {
      act(input);
      CHECK(session_.unanswered() <= kMaxUnanswered);
      CHECK(session_.held_puts() <= kMaxHeldPuts);
    }
    finish();
  }

 private:
  struct Asked {
    RequestCode code;
    std::size_t count;  // keys or entries
  };
  struct Blob {
    std::uint64_t offset, bytes;
    std::vector<std::uint64_t> words;
  };

  static Host& host() {
    static Host& one = *new Host;
    return one;
  }
  static HostChannel& channel() {
    static HostChannel& one = *new HostChannel;
    return one;
  }
  static void prepare() {
    static const bool once = (host().start_cold(), true);
    (void)once;
    channel().format(kClient);
  }
  segment::ChannelHeader& header() { return channel().view().header(); }

  void act(Input& input) {
    switch (input.below(16)) {
      case 0:
      case 1:
        put_start(input);
        break;
      case 2:
        ask(input);
        break;
      case 3:
        end_put(input);
        break;
      case 4:
        session_.report(MismatchReport{host_key(1), 1, input.below(200), 1, 0});
        break;
      case 5:
        session_.pump();
        session_.must_ring();
        break;
      case 6:
      case 7:
        consume();
        break;
      case 8:
        if (session_.prepare_sleep()) session_.woke_up();
        break;
      case 9:
        come_back(input);
        break;
      case 10:
      case 11:
      case 12:
        answer(input);
        break;
      case 13:
        raw_answer(input);
        break;
      case 14:
        node_counters(input);
        break;
      default:
        node_scribbles(input);
    }
  }

  // ---- what the client asks ----

  void remember(const Posted& posted, RequestCode code, std::size_t count) {
    if (posted.result == Post::kPosted) waiting_[cookie_] = {code, count};
  }
  void put_start(Input& input) {
    const auto keys = host_keys(input.take<std::uint8_t>(), 1 + input.below(8));
    const std::uint32_t whole[] = {static_cast<std::uint32_t>(keys.size())};
    PutRequest request{NamespaceRow{0}, 256, 1000, keys, {}, {}};
    if (input.flag()) request.group_lens = whole;
    if (input.flag()) request.parent = host_key(5);
    const Posted posted = session_.put_start(request, ++cookie_);
    remember(posted, RequestCode::kPutStart, keys.size());
    if (input.below(8) == 1 && posted.result == Post::kPosted) abandon(posted.request);
  }
  void abandon(RequestId request) {
    if (session_.abandon(request)) waiting_.erase(cookie_);
  }
  void ask(Input& input) {
    ++cookie_;
    switch (input.below(6)) {
      case 0:
        return remember(session_.open_namespace("{}", cookie_), RequestCode::kOpenNamespace, 0);
      case 1:
        return remember(session_.remove(NamespaceRow{0}, host_keys(0, 3), cookie_),
                        RequestCode::kRemove, 0);
      case 2:
        return remember(session_.flush(NamespaceRow{0}, true, cookie_), RequestCode::kFlush, 0);
      case 3:
        return remember(session_.drain(DrainMode::kAsk, cookie_), RequestCode::kDrain, 0);
      case 4:
        if (input.below(16) != 1) return;
        session_.detach(cookie_);
        waiting_[cookie_] = {RequestCode::kDetach, 0};
        return;
      default:
        return remember(session_.ping(cookie_), RequestCode::kPing, 0);
    }
  }
  void end_put(Input& input) {
    if (held_.empty()) return;
    auto at = held_.begin();
    std::advance(at, input.take<std::uint8_t>() % held_.size());
    const PutId put = at->first;
    switch (input.below(4)) {
      case 0:
        if (session_.register_copy(put)) copies_.insert(put);
        return;
      case 1:
        if (copies_.erase(put) != 0) session_.copy_done(put, input.flag());
        return;
      case 2:
        session_.abort(put);
        break;
      default:
        if (!session_.holds(put) || !session_.can_commit(put)) return;
        session_.commit(put, std::vector<CommitEntry>(at->second), ++cookie_);
        waiting_[cookie_] = {RequestCode::kPutCommit, at->second};
    }
    held_.erase(at);
  }

  // ---- what it hears ----

  void consume() {
    Answer answer;
    for (unsigned n = 0; n < 300; ++n) {
      const Session::State before = session_.state();
      const Session::Next next = session_.next(&answer);
      if (next == Session::Next::kBroken) {
        CHECK(session_.state() == Session::State::kLost);
        CHECK(before == Session::State::kAttached || before == Session::State::kLost);
      }
      if (next != Session::Next::kAnswer) return;
      heard(answer);
    }
    CHECK(false, "a ring has no more answers than cells");
  }
  void heard(const Answer& answer) {
    const auto asked = waiting_.find(answer.cookie);
    CHECK(asked != waiting_.end(), "an answer is waited for, once");
    CHECK(answer.code == asked->second.code);
    const std::size_t count = asked->second.count;
    const bool good = answer.status == kStatusOk;
    const bool start = answer.code == RequestCode::kPutStart;
    CHECK(answer.grants.size() == (good && start ? count : 0));
    CHECK(answer.outcomes.size() ==
          (good && (start || answer.code == RequestCode::kPutCommit) ? count : 0));
    for (const Outcome outcome : answer.outcomes) CHECK(static_cast<int>(outcome) < kOutcomeCount);
    CHECK(answer.text.size() <= kMaxErrorText);
    waiting_.erase(asked);
    if (start && session_.holds(answer.put)) make_blob(answer);
  }

  // As ClientCore::take_grants and put_blob do.
  void make_blob(const Answer& answer) {
    const segment::Geometry& geometry = host().area().geometry();
    std::size_t granted = 0;
    for (const SlotGrant& grant : answer.grants) {
      if (grant.slot == 0) continue;
      if (!geometry.in_bounds(SlotId{grant.slot}, 256)) {
        session_.abort(answer.put);
        return;
      }
      ++granted;
    }
    held_[answer.put] = granted;
    const std::uint64_t bytes = segment::plan_blob_bytes(granted);
    const auto offset = blobs_.allocate(bytes);
    if (!offset) return;
    CHECK(*offset + bytes <= channel().view().plans().size());
    for (const Blob& other : made_)
      CHECK(*offset + bytes <= other.offset || other.offset + other.bytes <= *offset,
            "blobs do not overlap");
    Blob blob{*offset, bytes, {segment::kPlanMagic, granted}};
    for (const SlotGrant& grant : answer.grants)
      if (grant.slot != 0)
        blob.words.push_back(
            reinterpret_cast<std::uint64_t>(host().value(SlotId{grant.slot}, 256).data()));
    std::memcpy(channel().view().plans().data() + *offset, blob.words.data(), bytes);
    made_.push_back(std::move(blob));
  }
  void check_blobs() {
    for (const Blob& blob : made_)
      CHECK(std::memcmp(channel().view().plans().data() + blob.offset, blob.words.data(),
                        blob.bytes) == 0,
            "nobody else writes a plan blob");
  }

  // ---- the server goes and comes ----

  void come_back(Input& input) {
    const std::uint32_t how = input.below(8);
    session_.lost();
    if (how == 1) return;
    if (how == 2 && input.below(4) == 1) {
      session_.give_up();
      return forget_all();
    }
    if (session_.state() == Session::State::kOver) return;
    const ResumeSnapshot snapshot = session_.reset();
    for (const PutId put : snapshot.held) CHECK(owner_of(put) == kClient);
    for (const Lost& lost : snapshot.lost) waiting_.erase(lost.cookie);
    node_head_ = node_tail_ = 0;
    header().request_head.store(0);
    header().response_tail.store(0);
    if (how == 3) return;
    session_.resumed();
    CHECK(session_.state() == Session::State::kAttached);
  }
  void forget_all() {
    waiting_.clear();
    held_.clear();
    copies_.clear();
  }

  // ---- what the node writes ----

  // Answers the next request, rightly but for what the input says.
  void answer(Input& input) {
    segment::RingMessage message =
        channel().view().request_cells()[node_head_ % segment::kRingCells];
    if (node_head_ == header().request_tail.load()) return;
    header().request_head.store(++node_head_);
    const auto code = static_cast<RequestCode>(message.code);
    // The node may have scribbled over the request itself.
    constexpr std::uint64_t kMost = 512;
    const std::uint64_t keys = std::min(message.args[1] >> 32, kMost);
    const std::uint64_t groups = std::min(message.args[2] >> 32, kMost);
    const std::uint64_t entries = std::min(message.args[1], kMost);
    std::uint64_t request_bytes = 0;
    std::vector<std::byte> body;
    if (code == RequestCode::kPutStart) {
      request_bytes = put_start_request_bytes(keys, groups, message.args[4] != 0);
      body = grants_of(input, keys);
    } else if (code == RequestCode::kPutCommit) {
      request_bytes = put_commit_request_bytes(entries);
      body.assign(entries, static_cast<std::byte>(Outcome::kStored));
    } else if (code == RequestCode::kOpenNamespace) {
      request_bytes = message.args[0];
    } else if (code == RequestCode::kRemove) {
      request_bytes = message.args[1] * sizeof(KeyId);
    } else if (code == RequestCode::kReportMismatch) {
      request_bytes = sizeof(MismatchReport);
    }
    message.body_offset += static_cast<std::uint32_t>(answer_offset(request_bytes));
    message.body_bytes = static_cast<std::uint32_t>(body.size());
    std::ranges::fill(message.args, 0);
    const std::span<std::byte> arena = channel().view().arena();
    if (message.body_offset <= arena.size() && body.size() <= arena.size() - message.body_offset)
      std::ranges::copy(body, arena.begin() + message.body_offset);
    spoil(input, message);
    push(message);
  }
  std::vector<std::byte> grants_of(Input& input, std::uint64_t keys) {
    std::vector<std::byte> body(keys * (sizeof(SlotGrant) + 1));
    for (std::uint64_t i = 0; i < keys; ++i) {
      SlotGrant grant{1 + input.below(256), 1};
      if (input.below(16) == 1) grant.slot = input.take<std::uint32_t>();
      std::memcpy(body.data() + i * sizeof grant, &grant, sizeof grant);
      body[keys * sizeof grant + i] = static_cast<std::byte>(Outcome::kPrepared);
    }
    return body;
  }
  static void spoil(Input& input, segment::RingMessage& message) {
    if (input.below(8) != 1) return;
    switch (input.below(6)) {
      case 0:
        message.code ^= input.take<std::uint8_t>();
        break;
      case 1:
        message.request_id ^= input.take<std::uint64_t>();
        break;
      case 2:
        message.body_offset ^= input.take<std::uint32_t>();
        break;
      case 3:
        message.body_bytes ^= input.take<std::uint32_t>();
        break;
      case 4:
        message.ring_generation ^= input.take<std::uint8_t>();
        break;
      default:
        message.args[input.below(5)] ^= input.take<std::uint64_t>();
    }
  }
  void push(const segment::RingMessage& message) {
    channel().view().response_cells()[node_tail_ % segment::kRingCells] = message;
    header().response_tail.store(++node_tail_);
  }
  void raw_answer(Input& input) {
    segment::RingMessage message;
    const auto bytes = input.bytes(sizeof message);
    if (!bytes.empty()) std::memcpy(static_cast<void*>(&message), bytes.data(), bytes.size());
    push(message);
  }
  void node_counters(Input& input) {
    segment::Atomic<std::uint32_t>& one =
        input.flag() ? header().response_tail : header().request_head;
    if (input.flag()) {
      one.store(one.load() + static_cast<std::uint32_t>(input.take<std::int8_t>()));
    } else {
      one.store(input.take<std::uint32_t>());
    }
  }
  // Everything but the plans.
  void node_scribbles(Input& input) {
    const std::span<std::byte> span =
        channel().span().first(channel().view().geometry().plan_offset);
    std::size_t at = input.take<std::uint32_t>() % span.size();
    for (const std::byte one : input.short_bytes())
      if (at < span.size()) span[at++] = one;
  }

  void finish() {
    consume();
    check_blobs();
    if (session_.state() == Session::State::kOver) return;
    session_.lost();
    session_.reset();
    header().request_head.store(0);
    header().response_tail.store(0);
    session_.resumed();
    CHECK(session_.state() == Session::State::kAttached && session_.unanswered() == 0);
    CHECK(session_.arena_used() == 0, "everything is free after a reset");
  }

  Session session_;
  segment::RangeAllocator blobs_{segment::kMinPartBytes};
  std::vector<Blob> made_;
  std::map<std::uint64_t, Asked> waiting_;
  std::map<PutId, std::size_t> held_;  // open, with so many slots
  std::set<PutId> copies_;
  std::uint64_t cookie_ = 0;
  std::uint32_t node_head_ = 0, node_tail_ = 0;
};

}  // namespace

void run_one(std::span<const std::byte> bytes) {
  Input input(bytes);
  World().run(input);
}

std::vector<Seed> make_seeds() {
  const auto start = [](InputWriter& w, unsigned count) {
    w.byte(0).byte(10).byte(count - 1).byte(0).byte(0).byte(0).byte(5);
  };
  const auto granted = [](InputWriter& w, unsigned count) {
    w.byte(10);
    for (unsigned i = 0; i < count; ++i) w.byte(i).byte(0);
    w.byte(0).byte(6);
  };
  std::vector<Seed> seeds;
  InputWriter life;
  start(life, 3);
  granted(life, 3);
  life.byte(3).byte(0).byte(3).byte(5).byte(10).byte(0).byte(6);
  seeds.push_back({"put-commit", life.take()});
  for (unsigned field = 0; field < 6; ++field) {
    InputWriter w;
    start(w, 2);
    w.byte(10).byte(0).byte(0).byte(1).byte(0).byte(1).byte(field).put<std::uint64_t>(255).byte(6);
    seeds.push_back({"spoiled-" + std::to_string(field), w.take()});
  }
  InputWriter far;
  start(far, 1);
  far.byte(10).byte(0).byte(1).put<std::uint32_t>(4'000'000'000).byte(0).byte(6);
  seeds.push_back({"slot-far-away", far.take()});
  InputWriter lost;
  start(lost, 4);
  lost.byte(9).byte(0);
  start(lost, 1);
  granted(lost, 1);
  lost.byte(3).byte(0).byte(0).byte(3).byte(0).byte(2).byte(9).byte(3).byte(9).byte(0).byte(4);
  lost.byte(5).byte(5).byte(2).byte(1).byte(2).byte(5).byte(10).byte(0).byte(10).byte(0).byte(6);
  seeds.push_back({"lost-and-back", lost.take()});
  InputWriter counters;
  counters.byte(14).byte(0).byte(0).put<std::uint32_t>(77);
  start(counters, 1);
  counters.byte(14).byte(1).byte(1).byte(250).byte(6).byte(15).put<std::uint32_t>(4096);
  counters.short_text("node writes here");
  seeds.push_back({"counters", counters.take()});
  return seeds;
}

}  // namespace orlop::fuzz
