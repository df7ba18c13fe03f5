// SPDX-License-Identifier: Apache-2.0
#include "ring_server.h"

#include <algorithm>
#include <cstring>

namespace orlop::fuzz {

using namespace protocol;

namespace {

constexpr unsigned kMessagesPerTurn = 32;

}  // namespace

RingServer::RingServer(Host& host, ClientId client, const segment::ChannelView& channel)
    : host_(host), client_(client), channel_(channel) {
  start(0);
}

void RingServer::start(std::uint32_t ring_generation) {
  generation_ = ring_generation;
  open_.clear();
  segment::ChannelHeader& header = channel_.header();
  requests_ =
      segment::RingConsumer(channel_.request_cells(), &header.request_tail, &header.request_head);
  answers_ = segment::RingProducer(channel_.response_cells(), &header.response_tail,
                                   &header.response_head);
  requests_.reset();
  answers_.reset();
  serving_ = true;
}

void RingServer::stop() {
  serving_ = false;
  open_.clear();
}

void RingServer::serve() {
  for (unsigned i = 0; i < kMessagesPerTurn && serving_; ++i) {
    segment::RingMessage message;
    const auto popped = requests_.pop(&message);
    if (popped == segment::RingConsumer::Pop::kEmpty) return;
    if (popped == segment::RingConsumer::Pop::kMalformed || !handle(message)) return stop();
  }
}

bool RingServer::handle(const segment::RingMessage& message) {
  if (open_.size() + 1 >= segment::kRingCells) return false;
  const auto request = decode_request(message, channel_.arena(), client_, generation_, scratch_);
  if (!request) {
    CHECK(request.error().code == ErrorCode::kCorrupt && !request.error().message.empty());
    return false;
  }
  for (const Open& open : open_)
    if (open.request == message.request_id) return false;
  CHECK(std::uint64_t{request->answer_offset} + request->answer_room <= channel_.arena().size(),
        "the answer's room lies in the arena");
  const PutId put{message.args[0]};
  open_.push_back(
      {message.request_id, message.code, request->answer_offset, request->answer_room, put});
  if (request->event) {
    host_.step(*request->event);
    host_.carry_out();
    return true;
  }
  NodeAnswer pong;
  pong.client = client_;
  pong.request = request->request;
  write(pong, host_.effects());
  return true;
}

void RingServer::carry_out(const NodeEffects& effects) {
  for (const NodeAnswer& answer : effects.answers)
    if (answer.client == client_) write(answer, effects);
  for (const CloseClient& close : effects.close)
    if (close.client == client_) stop();
  for (const ChannelReclaimed& gone : effects.reclaimed) {
    if (gone.client != client_) continue;
    reclaimed_ = true;
    stop();
  }
}

void RingServer::write(const NodeAnswer& answer, const NodeEffects& effects) {
  if (!serving_) return;
  const auto found = std::ranges::find(open_, answer.request.value, &Open::request);
  CHECK(found != open_.end(), "the machine answers what was asked, once");
  const Open open = *found;
  open_.erase(found);
  const auto code = static_cast<RequestCode>(open.code);
  std::byte* const body = channel_.arena().data() + open.answer_at;
  std::size_t used = 0;
  const auto append = [&](const void* data, std::size_t bytes) {
    CHECK(bytes <= open.answer_room - used, "room for the answer was checked with the request");
    if (bytes != 0) std::memcpy(body + used, data, bytes);
    used += bytes;
  };
  if (answer.status == kStatusOk && code == RequestCode::kPutStart) {
    const SlotGrant* const from = effects.grants.data() + answer.first_grant;
    append(from, answer.count * sizeof(SlotGrant));
    granted_put_ = open.put;
    grants_.assign(from, from + answer.count);
  }
  if (answer.status == kStatusOk &&
      (code == RequestCode::kPutStart || code == RequestCode::kPutCommit))
    append(effects.outcomes.data() + answer.first_outcome, answer.count);
  if (answer.text != NodeAnswer::kNoText) {
    const std::string& text = effects.texts[answer.text];
    append(text.data(),
           std::min<std::size_t>({text.size(), kMaxErrorText, open.answer_room - used}));
  }
  segment::RingMessage out;
  out.code = open.code;
  out.ring_generation = generation_;
  out.request_id = answer.request.value;
  out.args[kStatusArg] = answer.status;
  std::copy(std::begin(answer.args), std::end(answer.args), out.args);
  out.body_offset = open.answer_at;
  out.body_bytes = static_cast<std::uint32_t>(used);
  if (!answers_.push(out)) stop();
}

}  // namespace orlop::fuzz
