// SPDX-License-Identifier: Apache-2.0
// The server's hot path: messages off the rings, answers onto them.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "platform/pause_point.h"
#include "runtime/server_loop.h"

namespace orlop::runtime {

using protocol::NodeAnswer;
using protocol::RequestCode;
using segment::RingConsumer;
using segment::RingMessage;

// One turn for every client that has asked something. True if anything was served.
bool ServerLoop::serve_rings() {
  served_messages_ = 0;
  for (const auto& client : clients_) {
    if (client->served && !client->requests.empty()) serve(*client);
  }
  return served_messages_ != 0;
}

bool ServerLoop::any_ring_waits() const {
  for (const auto& client : clients_) {
    if (client->served && !client->requests.empty()) return true;
  }
  return false;
}

// Every client that works, and we, need a CPU each; on fewer, looking takes one away from
// somebody's work. Those that are idle, lost or dead need none.
bool ServerLoop::crowded() const {
  unsigned active = 0;
  for (const auto& client : clients_)
    active += client->served && is_active(client->asked_at, now_) ? 1 : 0;
  return active >= cpus_;
}

void ServerLoop::serve(ServedClient& client) {
  for (unsigned i = 0; i < kMessagesPerTurn && client.served; ++i) {
    RingMessage message;
    const RingConsumer::Pop popped = client.requests.pop(&message);
    if (popped == RingConsumer::Pop::kEmpty) break;
    ++served_messages_;
    client.asked_at = now_;
    if (popped == RingConsumer::Pop::kMalformed) {
      malformed(client, "request ring: its tail is more than a ring ahead");
      break;
    }
    PAUSE_POINT(kServerStepping);
    const auto handled = handle(client, message);
    if (!handled) {
      malformed(client, handled.error().message);
      break;
    }
  }
  wake_answered();
}

// Its rings are left alone from here on; the connection is closed after the round.
void ServerLoop::malformed(ServedClient& client, std::string why) {
  ++counters_.malformed;
  client.stop_serving();
  expelled_.emplace_back(client.id,
                         Error{ErrorCode::kInvalidArgument, "channel: " + std::move(why)});
}

// message is a copy; the decoder copies the body before it looks at it.
Result<void> ServerLoop::handle(ServedClient& client, const RingMessage& message) {
  if (client.open.size() + 1 >= segment::kRingCells) {
    return fail(ErrorCode::kInvalidArgument,
                "more unanswered requests than the response ring has cells");
  }
  const auto request = protocol::decode_request(message, client.view.arena(), client.id,
                                                client.ring_generation, scratch_);
  if (!request) return std::unexpected<Error>(request.error());
  for (const OpenRequest& open : client.open) {
    if (open.request == message.request_id) {
      return fail(ErrorCode::kInvalidArgument,
                  "request_id " + std::to_string(open.request) + " is not answered yet");
    }
  }
  ++counters_.requests[message.code];
  client.open.push_back(
      {message.request_id, message.code, request->answer_offset, request->answer_room});
  if (!request->event) {
    NodeAnswer pong;
    pong.client = client.id;
    pong.request = request->request;
    write_answer(pong);
  } else if (const auto* put = std::get_if<protocol::event::PutStart>(&*request->event)) {
    machine_->put_start(*put, now_, effects_);
  } else if (const auto* commit = std::get_if<protocol::event::PutCommit>(&*request->event)) {
    machine_->put_commit(*commit, now_, effects_);
  } else {
    machine_->step(*request->event, now_, effects_);
  }
  settle();
  return {};
}

// Carries out what the machine wants and empties effects_. Clients are closed and let go of after
// the round only, so that nobody's list changes under him.
void ServerLoop::settle() {
  // The keeper hears of it first, so that who reads "detached" finds no trace of itself there. (If
  // it dies before, the channel's own word tells the server after the next keeper.)
  for (const auto& effect : effects_.reclaimed)
    tell_keeper(protocol::encode(protocol::DropFrame{effect.client}));
  PAUSE_POINT(kServerStepped);
  for (const NodeAnswer& answer : effects_.answers) write_answer(answer);
  for (const auto& question : effects_.verify) verifier_->ask(question);
  for (const auto& effect : effects_.punch) punch(effect.place);
  for (auto& effect : effects_.close) {
    if (ServedClient* client = find(effect.client)) malformed(*client, std::move(effect.why));
  }
  for (const auto& effect : effects_.reclaimed) reclaimed_.push_back(effect.client);
  effects_.clear();
}

void ServerLoop::write_answer(const NodeAnswer& answer) {
  ServedClient* client = find(answer.client);
  if (client == nullptr || !client->served) return;  // it left meanwhile: nobody wants to know
  const OpenRequest open = client->take_open(answer.request);
  RingMessage out;
  out.code = open.code;
  out.ring_generation = client->ring_generation;
  out.request_id = answer.request.value;
  out.args[protocol::kStatusArg] = answer.status;
  std::copy(std::begin(answer.args), std::end(answer.args), out.args);
  put_body(*client, open, answer, out);
  if (!client->answers.push(out)) {
    // Fewer are unanswered than the ring has cells, so only a counter it should not have written
    // can make the ring look full.
    return malformed(*client, "response ring: its head was moved back");
  }
  if (!client->wake) {
    client->wake = true;
    woken_.push_back(client);
  }
}

// Grants, outcomes, then text as far as it fits.
void ServerLoop::put_body(ServedClient& client, const OpenRequest& open, const NodeAnswer& answer,
                          RingMessage& out) {
  std::byte* const body = client.view.arena().data() + open.answer_at;
  std::size_t used = 0;
  const auto append = [&](const void* data, std::size_t bytes) {
    CHECK(bytes <= open.answer_room - used, "room for the answer was checked with the request");
    if (bytes != 0) std::memcpy(body + used, data, bytes);
    used += bytes;
  };
  if (answer.status == protocol::kStatusOk) {
    const auto code = static_cast<RequestCode>(open.code);
    if (code == RequestCode::kPutStart) {
      append(effects_.grants.data() + answer.first_grant,
             answer.count * sizeof(protocol::SlotGrant));
    }
    if (code == RequestCode::kPutStart || code == RequestCode::kPutCommit) {
      append(effects_.outcomes.data() + answer.first_outcome, answer.count * sizeof(Outcome));
    }
  }
  if (answer.text != NodeAnswer::kNoText) {
    const std::string& text = effects_.texts[answer.text];
    append(text.data(),
           std::min<std::size_t>({text.size(), protocol::kMaxErrorText, open.answer_room - used}));
  }
  out.body_offset = open.answer_at;
  out.body_bytes = static_cast<std::uint32_t>(used);
}

void ServerLoop::wake_answered() {
  if (woken_.empty()) return;
  PAUSE_POINT(kServerAnswered);
  segment::full_fence();  // partner: the client's fence between its sleep flag and looking again
  for (ServedClient* client : woken_) {
    if (!client->wake) continue;
    client->wake = false;
    if (client->view.header().client_sleeping.load(std::memory_order_relaxed) == 0) continue;
    client->files.client_doorbell.ring();
    ++counters_.doorbells;
  }
  woken_.clear();
}

void ServerLoop::punch(unsigned place) {
  const segment::Geometry& geometry = segment_.area.geometry();
  const auto done =
      segment_.control_file.punch_hole(geometry.index_offset[place], geometry.index_place_bytes);
  // Memory is lost for a while, nothing else: the machine must go on to its next growth. But it
  // counts on zeroes.
  if (!done) {
    LOG_ERROR("index_place_not_punched", {"error", done.error().message});
    std::memset(segment_.control.data() + geometry.index_offset[place], 0,
                geometry.index_place_bytes);
  }
  machine_->index_place_punched(place);
}

}  // namespace orlop::runtime
