// SPDX-License-Identifier: Apache-2.0
#include "ring_end.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace orlop::simulation {

using protocol::NodeAnswer;
using protocol::RequestCode;

RingEnd::RingEnd(const segment::ChannelView& channel, std::uint32_t ring_generation)
    : channel_(channel),
      ring_generation_(ring_generation),
      requests_(channel.request_cells(), &channel.header().request_tail,
                &channel.header().request_head),
      responses_(channel.response_cells(), &channel.header().response_tail,
                 &channel.header().response_head) {}

RingEnd::Taken RingEnd::take(ClientId client, MonoNs now, MonoNs max_wait) {
  request_.reset();
  segment::RingMessage message;
  switch (requests_.pop(&message)) {
    case segment::RingConsumer::Pop::kEmpty:
      return Taken::kNothing;
    case segment::RingConsumer::Pop::kMalformed:
      return Taken::kBroken;
    case segment::RingConsumer::Pop::kMessage:
      break;
  }
  auto decoded =
      protocol::decode_request(message, channel_.arena(), client, ring_generation_, scratch_);
  if (!decoded) return Taken::kBroken;
  Open open{decoded->code, decoded->answer_offset, decoded->answer_room, now};
  if (const auto* put =
          decoded->event ? std::get_if<protocol::event::PutStart>(&*decoded->event) : nullptr)
    open.due = now + std::min(put->wait_budget, max_wait);
  if (!open_.emplace(decoded->request, open).second) return Taken::kBroken;
  request_ = std::move(decoded->event);
  if (!request_) push(decoded->request, open, {}, protocol::kStatusOk, {});
  return Taken::kRequest;
}

std::optional<RequestCode> RingEnd::overdue(MonoNs now) const {
  for (const auto& [request, open] : open_)
    if (open.due <= now) return open.code;
  return std::nullopt;
}

void RingEnd::answer(const NodeAnswer& answer, const protocol::NodeEffects& effects) {
  const auto asked = open_.find(answer.request);
  CHECK(asked != open_.end(), "the node answers what was asked of these rings, once");
  CHECK(asked->second.code == answer.code);
  std::vector<std::byte> body;
  const auto append = [&body](const void* data, std::size_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    body.insert(body.end(), from, from + bytes);
  };
  const bool start = answer.code == RequestCode::kPutStart;
  if (answer.status == protocol::kStatusOk && start)
    append(effects.grants.data() + answer.first_grant, answer.count * sizeof(protocol::SlotGrant));
  if (answer.status == protocol::kStatusOk && (start || answer.code == RequestCode::kPutCommit))
    append(effects.outcomes.data() + answer.first_outcome, answer.count);
  if (answer.text != NodeAnswer::kNoText)
    append(effects.texts[answer.text].data(), effects.texts[answer.text].size());
  push(answer.request, asked->second, body, answer.status, answer.args);
}

void RingEnd::push(RequestId request, const Open& open, std::span<const std::byte> body,
                   std::uint64_t status, std::span<const std::uint64_t> args) {
  segment::RingMessage response;
  response.code = static_cast<std::uint32_t>(open.code);
  response.ring_generation = ring_generation_;
  response.request_id = request.value;
  response.body_offset = open.answer_offset;
  response.body_bytes =
      static_cast<std::uint32_t>(std::min<std::size_t>(body.size(), open.answer_room));
  std::copy(args.begin(), args.end(), response.args);
  response.args[protocol::kStatusArg] = status;
  if (response.body_bytes != 0)
    std::memcpy(channel_.arena().data() + response.body_offset, body.data(), response.body_bytes);
  open_.erase(request);
  CHECK(responses_.push(response), "a client posts only what it has room for");
}

}  // namespace orlop::simulation
