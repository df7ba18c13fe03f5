// SPDX-License-Identifier: Apache-2.0
#include "cli/worker_link.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "platform/clock.h"
#include "platform/system_error.h"

namespace orlop::cli {
namespace {

// Long enough for any error text, short enough for one message.
constexpr std::size_t kMaxTextBytes = 4096;

// True: ready. False: the deadline passed or a signal came.
Result<bool> wait_for(int fd, short events, MonoNs deadline) {
  pollfd waited{fd, events, 0};
  const MonoNs left = time_left(deadline, monotonic_ns());
  // Rounded up, so that the last wait does not spin.
  const auto left_ms = std::min<MonoNs>(left / kNsPerMs + (left % kNsPerMs != 0), 60'000);
  const int ready = ::poll(&waited, 1, static_cast<int>(left_ms));
  if (ready < 0 && errno != EINTR) return system_failure("poll(worker link)", errno);
  return ready > 0;
}

}  // namespace

void TallyBody::add(const TallyBody& other) {
  requests += other.requests;
  pages += other.pages;
  hit_pages += other.hit_pages;
  verified_bytes += other.verified_bytes;
  checksum_mismatches += other.checksum_mismatches;
  wrong_pages += other.wrong_pages;
  cross_worker_pages += other.cross_worker_pages;
  stored_pages += other.stored_pages;
  for (int i = 0; i < kOutcomeCount; ++i) outcomes[i] += other.outcomes[i];
  for (int i = 0; i < kMissReasonCount; ++i) miss_reasons[i] += other.miss_reasons[i];
  plan_ns.merge(other.plan_ns);
  get_ns.merge(other.get_ns);
  put_ns.merge(other.put_ns);
}

Result<void> WorkerLink::send_text(Word word, const std::string& text, MonoNs deadline) {
  const auto bytes = std::as_bytes(std::span(text.data(), std::min(text.size(), kMaxTextBytes)));
  return send_bytes(word, bytes, deadline);
}

Result<void> WorkerLink::send_bytes(Word word, std::span<const std::byte> body, MonoNs deadline) {
  std::vector<std::byte> bytes(sizeof word + body.size());
  std::memcpy(bytes.data(), &word, sizeof word);
  if (!body.empty()) std::memcpy(bytes.data() + sizeof word, body.data(), body.size());
  for (;;) {
    const auto sent = send_message(socket_.get(), bytes);
    if (!sent) return std::unexpected(sent.error());
    if (*sent) return {};
    if (monotonic_ns() >= deadline) {
      return fail(ErrorCode::kDeadline, "the other end does not read its messages");
    }
    if (auto waited = wait_for(socket_.get(), POLLOUT, deadline); !waited) {
      return std::unexpected(waited.error());
    }
  }
}

Result<std::optional<WorkerMessage>> WorkerLink::receive(MonoNs deadline) {
  for (bool waited = deadline == 0;; waited = true) {
    auto received = receive_message(socket_.get());
    if (!received) return std::unexpected(received.error());
    if (received->state == ReceiveState::kEnd) {
      return fail(ErrorCode::kClosed, "the other end has gone");
    }
    if (received->state == ReceiveState::kMessage) {
      const auto& bytes = received->message.bytes;
      WorkerMessage message;
      if (bytes.size() < sizeof message.word) return fail(ErrorCode::kCorrupt, "message too short");
      std::memcpy(&message.word, bytes.data(), sizeof message.word);
      message.body.assign(bytes.begin() + sizeof message.word, bytes.end());
      return message;
    }
    if (waited) return std::nullopt;
    const auto ready = wait_for(socket_.get(), POLLIN, deadline);
    if (!ready) return std::unexpected(ready.error());
  }
}

}  // namespace orlop::cli
