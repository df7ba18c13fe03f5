// SPDX-License-Identifier: Apache-2.0
// Test support: a channel in plain memory and the node's end of its rings, moved by hand.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "protocol/messages.h"
#include "protocol/session/session.h"
#include "segment/channel.h"
#include "segment/control_area.h"
#include "segment/geometry.h"
#include "segment/ring.h"

namespace orlop::protocol::testing {

// Page-aligned zeroed memory.
class PlainMemory {
 public:
  explicit PlainMemory(std::uint64_t bytes)
      : bytes_(bytes), data_(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, bytes))) {
    std::memset(data_, 0, bytes);
  }
  ~PlainMemory() { std::free(data_); }
  PlainMemory(const PlainMemory&) = delete;
  PlainMemory& operator=(const PlainMemory&) = delete;
  std::span<std::byte> span() { return {data_, bytes_}; }

 private:
  std::uint64_t bytes_;
  std::byte* data_;
};

struct FakeNodeOptions {
  ClientId client{7};
  std::uint64_t arena_bytes = 64 * kKiB;
};

class FakeNode {
 public:
  explicit FakeNode(FakeNodeOptions options = {})
      : segment_geometry_(make_geometry(4 * kMiB, 64 * kKiB).value()),
        control_memory_(segment_geometry_.control_bytes),
        area_(
            segment::ControlArea::format(control_memory_.span(), segment_geometry_, SegmentId{1})),
        sizes_{.ledger_cells = 256,
               .touch_cells = 64,
               .arena_bytes = options.arena_bytes,
               .plan_bytes = 64 * kKiB},
        geometry_(segment::make_channel_geometry(sizes_).value()),
        channel_memory_(geometry_.total_bytes),
        channel_(segment::ChannelView::format(channel_memory_.span(), geometry_, sizes_,
                                              options.client)),
        client_(options.client) {
    start();
  }

  // A fresh server: looks at the counters as they are.
  void start() {
    segment::ChannelHeader& header = channel_.header();
    requests_ =
        segment::RingConsumer(channel_.request_cells(), &header.request_tail, &header.request_head);
    responses_ = segment::RingProducer(channel_.response_cells(), &header.response_tail,
                                       &header.response_head);
  }

  Session make_session() { return Session(area_, channel_, client_); }
  segment::ControlArea& area() { return area_; }
  segment::ChannelView& channel() { return channel_; }
  std::uint32_t unread() const {
    return channel_.header().request_tail.load() - channel_.header().request_head.load();
  }

  segment::RingMessage take() {
    segment::RingMessage message;
    EXPECT_EQ(requests_.pop(&message), segment::RingConsumer::Pop::kMessage);
    return message;
  }
  std::vector<segment::RingMessage> take_all() {
    std::vector<segment::RingMessage> all;
    while (unread() > 0) all.push_back(take());
    return all;
  }

  template <class T>
  std::vector<T> body(const segment::RingMessage& request, std::size_t count,
                      std::size_t skip = 0) const {
    std::vector<T> items(count);
    std::memcpy(items.data(), channel_.arena().data() + request.body_offset + skip,
                count * sizeof(T));
    return items;
  }

  void answer(const segment::RingMessage& request, std::uint64_t request_bytes,
              std::span<const std::byte> bytes, std::uint64_t status = kStatusOk,
              std::uint64_t argument = 0) {
    segment::RingMessage response = request;
    response.body_offset =
        request.body_offset + static_cast<std::uint32_t>(answer_offset(request_bytes));
    response.body_bytes = static_cast<std::uint32_t>(bytes.size());
    std::memset(response.args, 0, sizeof(response.args));
    response.args[0] = argument;
    response.args[kStatusArg] = status;
    if (!bytes.empty())
      std::memcpy(channel_.arena().data() + response.body_offset, bytes.data(), bytes.size());
    ASSERT_TRUE(responses_.push(response));
  }
  void answer_plain(const segment::RingMessage& request, std::uint64_t argument = 0) {
    answer(request, 0, {}, kStatusOk, argument);
  }
  // Grants slot 100 + i to key i where granted[i], else answers kExists.
  void answer_put(const segment::RingMessage& request, const std::vector<bool>& granted) {
    std::vector<std::byte> bytes(granted.size() * 9);
    for (std::size_t i = 0; i < granted.size(); ++i) {
      const SlotGrant grant =
          granted[i] ? SlotGrant{static_cast<std::uint32_t>(100 + i), 5} : SlotGrant{};
      const Outcome outcome = granted[i] ? Outcome::kPrepared : Outcome::kExists;
      std::memcpy(bytes.data() + i * 8, &grant, 8);
      std::memcpy(bytes.data() + granted.size() * 8 + i, &outcome, 1);
    }
    answer(request, put_bytes(request), bytes);
  }
  void answer_commit(const segment::RingMessage& request, Outcome outcome = Outcome::kStored) {
    const std::vector<std::byte> bytes(request.args[1], static_cast<std::byte>(outcome));
    answer(request, put_commit_request_bytes(request.args[1]), bytes);
  }
  static std::uint64_t put_bytes(const segment::RingMessage& request) {
    return put_start_request_bytes(request.args[1] >> 32, request.args[2] >> 32,
                                   (request.args[4] & kHasParent) != 0);
  }

 private:
  static Result<segment::Geometry> make_geometry(std::uint64_t capacity, std::uint64_t max_len) {
    return segment::make_geometry(capacity, max_len);
  }

  segment::Geometry segment_geometry_;
  PlainMemory control_memory_;
  segment::ControlArea area_;
  segment::ChannelSizes sizes_;
  segment::ChannelGeometry geometry_;
  PlainMemory channel_memory_;
  segment::ChannelView channel_;
  ClientId client_;
  segment::RingConsumer requests_;
  segment::RingProducer responses_;
};

inline std::vector<KeyId> numbered_keys(std::size_t count, std::uint64_t first = 1) {
  std::vector<KeyId> keys;
  for (std::size_t i = 0; i < count; ++i) keys.push_back({first + i, ~(first + i)});
  return keys;
}

}  // namespace orlop::protocol::testing
