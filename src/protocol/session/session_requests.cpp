// SPDX-License-Identifier: Apache-2.0
// Session: what goes out. Requests that somebody waits for, and the private queue.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/planted.h"
#include "protocol/session/session.h"

namespace orlop::protocol {

namespace {

// A request id names its entry in the table of unanswered requests in its low bits; the rest is a
// sequence that never repeats.
constexpr unsigned kEntryBits = 8;
static_assert(segment::kRingCells == 1U << kEntryBits);

template <class T>
std::byte* append(std::byte* to, std::span<const T> items) {
  // An empty span may have no address at all, which memcpy must not see.
  if (!items.empty()) std::memcpy(to, items.data(), items.size_bytes());
  return to + items.size_bytes();
}

}  // namespace

Session::Session(segment::ControlArea area, segment::ChannelView channel, ClientId client)
    : area_(area),
      channel_(channel),
      client_(client),
      requests_(channel.request_cells(), &channel.header().request_tail,
                &channel.header().request_head),
      responses_(channel.response_cells(), &channel.header().response_tail,
                 &channel.header().response_head),
      ring_generation_(channel.header().ring_generation.load(std::memory_order_relaxed)),
      arena_(channel.geometry().arena_bytes),
      outstanding_(segment::kRingCells) {
  CHECK(client.value != 0, "client ids begin at 1");
  free_entries_.reserve(segment::kRingCells);
  for (std::uint32_t i = segment::kRingCells; i-- > 0;) free_entries_.push_back(i);
}

// The node takes a request's cell before it answers, so credit for an answer is credit for a
// request too, unless its counter lies: then next() says kBroken. An engine must not die of that.
bool Session::cell_free() {
  if (unanswered_ >= kMaxUnanswered) return false;
  if (requests_.room() == 0) cells_denied_ = true;
  return !cells_denied_;
}

Post Session::room_for_waiting(std::uint64_t bytes) {
  if (state_ != State::kAttached || detaching_) return Post::kNotAttached;
  if (bytes > channel_.geometry().arena_bytes) return Post::kTooLarge;
  // What never waits goes first: else a stream of new requests could starve a large commit.
  if (!private_queue_.empty() || !cell_free()) return Post::kNoRoom;
  return Post::kPosted;
}

std::optional<Session::Region> Session::allocate(std::uint64_t request_bytes,
                                                 std::uint64_t answer_bytes) {
  const std::uint64_t bytes = region_bytes(request_bytes, answer_bytes);
  const std::optional<std::uint64_t> offset = arena_.allocate(bytes);
  if (!offset) return std::nullopt;
  return Region{static_cast<std::uint32_t>(*offset), static_cast<std::uint32_t>(bytes),
                static_cast<std::uint32_t>(request_bytes)};
}

RequestId Session::push(segment::RingMessage message, const Outstanding& entry) {
  CHECK(unanswered_ < kMaxUnanswered && !free_entries_.empty());
  const std::uint32_t index = free_entries_.back();
  free_entries_.pop_back();
  const RequestId request{next_request_++ << kEntryBits | index};
  message.code = static_cast<std::uint32_t>(entry.code);
  message.ring_generation = ring_generation_;
  message.request_id = request.value;
  message.body_offset = entry.region.offset;
  message.body_bytes = entry.region.bytes;
  outstanding_[index] = entry;
  outstanding_[index].request = request;
  ++unanswered_;
  // Asked for by cell_free(); a counter that was moved since then is next()'s to find.
  if (!requests_.push(message)) cells_denied_ = true;
  return request;
}

Session::Outstanding* Session::find(RequestId request) {
  Outstanding& entry = outstanding_[request.value & (segment::kRingCells - 1)];
  return request.value != 0 && entry.request == request ? &entry : nullptr;
}

Posted Session::put_start(const PutRequest& r, std::uint64_t cookie) {
  CHECK(!r.keys.empty() && r.keys.size() <= kMaxKeysPerPut);
  const std::uint64_t request_bytes =
      put_start_request_bytes(r.keys.size(), r.group_lens.size(), r.parent.has_value());
  // Behind grants and outcomes the node tells the pool's state in words, if there is room.
  const std::uint64_t answer_bytes = put_start_answer_bytes(r.keys.size()) + kMaxErrorText;
  Post room = room_for_waiting(region_bytes(request_bytes, answer_bytes));
  if (room == Post::kPosted && puts_.size() + starting_ >= kMaxHeldPuts) room = Post::kTooManyPuts;
  if (room == Post::kPosted && next_put_ > kMaxPutSequence) room = Post::kNoPutIds;
  if (room != Post::kPosted) return {.result = room};
  const std::optional<Region> region = allocate(request_bytes, answer_bytes);
  if (!region) return {.result = Post::kNoRoom};

  std::byte* body = channel_.arena().data() + region->offset;
  body = append(body, r.keys);
  body = append(body, r.group_lens);
  if (r.parent) append(body, std::span<const KeyId>(&*r.parent, 1));

  const PutId put = make_put_id(client_, next_put_++);
  segment::RingMessage message;
  message.args[0] = put.value;
  message.args[1] = r.row.value | std::uint64_t{r.keys.size()} << 32;
  message.args[2] = r.value_len | std::uint64_t{r.group_lens.size()} << 32;
  message.args[3] = r.wait_us;
  message.args[4] = r.parent ? std::uint64_t{kHasParent} : 0;
  ++starting_;
  const RequestId request = push(message, {.code = RequestCode::kPutStart,
                                           .count = static_cast<std::uint32_t>(r.keys.size()),
                                           .cookie = cookie,
                                           .put = put,
                                           .region = *region});
  return {Post::kPosted, request, put};
}

Posted Session::post_plain(RequestCode code, std::span<const std::byte> body,
                           std::uint64_t argument0, std::uint64_t argument1, std::uint64_t cookie) {
  const Post room = room_for_waiting(region_bytes(body.size(), 0));
  if (room != Post::kPosted) return {.result = room};
  const std::optional<Region> region = allocate(body.size(), 0);
  if (!region) return {.result = Post::kNoRoom};
  append(channel_.arena().data() + region->offset, body);
  segment::RingMessage message;
  message.args[0] = argument0;
  message.args[1] = argument1;
  return {.result = Post::kPosted,
          .request = push(message, {.code = code, .cookie = cookie, .region = *region})};
}

Posted Session::open_namespace(std::string_view text, std::uint64_t cookie) {
  return post_plain(RequestCode::kOpenNamespace, std::as_bytes(std::span(text)), text.size(), 0,
                    cookie);
}

Posted Session::remove(NamespaceRow row, std::span<const KeyId> keys, std::uint64_t cookie) {
  return post_plain(RequestCode::kRemove, std::as_bytes(keys), row.value, keys.size(), cookie);
}

Posted Session::flush(NamespaceRow row, bool family, std::uint64_t cookie) {
  return post_plain(RequestCode::kFlush, {}, row.value, family ? 1 : 0, cookie);
}

Posted Session::drain(DrainMode mode, std::uint64_t cookie) {
  return post_plain(RequestCode::kDrain, {}, static_cast<std::uint64_t>(mode), 0, cookie);
}

Posted Session::ping(std::uint64_t cookie) {
  return post_plain(RequestCode::kPing, {}, 0, 0, cookie);
}

// ---- the private queue -----------------------------------------------------------------------

bool Session::report(const MismatchReport& mismatch) {
  if (state_ == State::kOver || detaching_ || queued_reports_ >= kMaxQueuedReports) {
    ++reports_dropped_;
    return false;
  }
  ++queued_reports_;
  private_queue_.push_back({.code = RequestCode::kReportMismatch, .report = mismatch});
  return true;
}

void Session::detach(std::uint64_t cookie) {
  if (detaching_ || state_ == State::kOver) return;
  detaching_ = true;
  detach_cookie_ = cookie;
  // Between lost() and resumed() it would be dropped or doubled: resumed() queues it.
  if (state_ == State::kAttached) private_queue_.push_back({.code = RequestCode::kDetach});
}

void Session::pump() {
  if (state_ != State::kAttached) return;
  while (!private_queue_.empty() && cell_free()) {
    if (!post_private(private_queue_.front())) {
      SOMETIMES(true, "private_queue_waits_for_arena");
      return;
    }
    private_queue_.pop_front();
  }
  SOMETIMES(!private_queue_.empty(), "private_queue_waits_for_a_cell");
}

bool Session::post_private(const Private& item) {
  if (item.code == RequestCode::kPutCommit) return post_commit(item.put);
  std::span<const std::byte> body;
  if (item.code == RequestCode::kReportMismatch)
    body = std::as_bytes(std::span<const MismatchReport>(&item.report, 1));
  const std::optional<Region> region = allocate(body.size(), 0);
  if (!region) return false;
  append(channel_.arena().data() + region->offset, body);
  segment::RingMessage message;
  message.args[0] = item.put.value;  // 0 for reports and the detach
  const std::uint64_t cookie = item.code == RequestCode::kDetach ? detach_cookie_ : 0;
  push(message, {.code = item.code, .cookie = cookie, .put = item.put, .region = *region});
  if (item.code == RequestCode::kReportMismatch) --queued_reports_;
  return true;
}

bool Session::post_commit(PutId put) {
  const auto held = puts_.find(put);
  CHECK(held != puts_.end() && held->second.committed, "a queued commit is kept until answered");
  const std::vector<CommitEntry>& entries = held->second.entries;
  const std::optional<Region> region =
      allocate(put_commit_request_bytes(entries.size()), put_commit_answer_bytes(entries.size()));
  if (!region) return false;
  append(channel_.arena().data() + region->offset, std::span(entries));
  segment::RingMessage message;
  message.args[0] = put.value;
  message.args[1] = entries.size();
  push(message, {.code = RequestCode::kPutCommit,
                 .count = static_cast<std::uint32_t>(entries.size()),
                 .put = put,
                 .region = *region});
  return true;
}

bool Session::must_ring() {
  // Partner: the node stores its sleep flag, fences and looks at the rings again before it sleeps.
  if (!PLANTED(kWakerWithoutFence)) segment::full_fence();
  return area_.header().node_sleeping.load(std::memory_order_relaxed) != 0;
}

}  // namespace orlop::protocol
