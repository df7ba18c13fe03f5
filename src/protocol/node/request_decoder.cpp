// SPDX-License-Identifier: Apache-2.0
#include "protocol/node/request_decoder.h"

#include <algorithm>
#include <cstring>

namespace orlop::protocol {
namespace {

std::unexpected<Error> malformed(const char* field, std::uint64_t value, const char* bound,
                                 std::uint64_t limit) {
  return fail(ErrorCode::kCorrupt, std::string("request: ") + field + " is " +
                                       std::to_string(value) + ", " + bound + " " +
                                       std::to_string(limit));
}

constexpr std::uint32_t low(std::uint64_t v) {
  return static_cast<std::uint32_t>(v);
}
constexpr std::uint32_t high(std::uint64_t v) {
  return static_cast<std::uint32_t>(v >> 32);
}

// A longer wait is no error: the node caps it anyway. Keeps the product in 64 bits.
constexpr std::uint64_t kMaxWaitUs = 1'000'000'000;

// Decodes one message whose body region was found to lie inside the arena.
class Decoder {
 public:
  Decoder(const segment::RingMessage& message, std::span<const std::byte> body, ClientId client,
          DecodeScratch& scratch)
      : m_(message), body_(body), client_(client), scratch_(scratch) {}

  Result<DecodedRequest> decode() {
    switch (static_cast<RequestCode>(m_.code)) {
      case RequestCode::kOpenNamespace:
        return open_namespace();
      case RequestCode::kPutStart:
        return put_start();
      case RequestCode::kPutCommit:
        return put_commit();
      case RequestCode::kPutAbort:
        return finish(0, 0, event::PutAbort{client_, request(), PutId{m_.args[0]}});
      case RequestCode::kRemove:
        return remove();
      case RequestCode::kFlush:
        return flush();
      case RequestCode::kReportMismatch:
        return report_mismatch();
      case RequestCode::kDetach:
        return finish(0, 0, event::Detach{client_, request()});
      case RequestCode::kPing:
        return finish(0, 0, std::nullopt);
      case RequestCode::kDrain:
        return drain();
    }
    return malformed("code", m_.code, "the last one is",
                     static_cast<std::uint64_t>(kLastRequestCode));
  }

 private:
  RequestId request() const { return RequestId{m_.request_id}; }

  // The region must hold the request's bytes and, behind them, the answer's.
  std::optional<Error> refuse_region(std::uint64_t request_bytes,
                                     std::uint64_t answer_bytes) const {
    const std::uint64_t needed = answer_offset(request_bytes) + answer_bytes;
    if (body_.size() >= needed) return std::nullopt;
    return malformed("body_bytes", body_.size(), "needed are", needed).error();
  }

  template <class Event>
  Result<DecodedRequest> finish(std::uint64_t request_bytes, std::uint64_t answer_bytes,
                                Event&& event) {
    if (auto error = refuse_region(request_bytes, answer_bytes))
      return std::unexpected(std::move(*error));
    DecodedRequest decoded;
    decoded.code = static_cast<RequestCode>(m_.code);
    decoded.request = request();
    const std::uint64_t at = std::min<std::uint64_t>(answer_offset(request_bytes), body_.size());
    decoded.answer_offset = m_.body_offset + static_cast<std::uint32_t>(at);
    decoded.answer_room = static_cast<std::uint32_t>(body_.size() - at);
    decoded.event = std::forward<Event>(event);
    return decoded;
  }

  // Copies `count` Ts from byte `at` of the body. Requires: they lie inside it.
  template <class T>
  void copy(std::uint64_t at, std::uint64_t count, std::vector<T>& to) const {
    to.resize(count);
    if (count > 0) std::memcpy(to.data(), body_.data() + at, count * sizeof(T));
  }

  Result<DecodedRequest> open_namespace() {
    const std::uint64_t bytes = m_.args[0];
    if (bytes > kMaxNamespaceRequestBytes)
      return malformed("descriptor length", bytes, "at most", kMaxNamespaceRequestBytes);
    if (auto error = refuse_region(bytes, 0)) return std::unexpected(std::move(*error));
    scratch_.text.assign(reinterpret_cast<const char*>(body_.data()), bytes);
    return finish(bytes, 0, event::OpenNamespace{client_, request(), scratch_.text});
  }

  Result<DecodedRequest> put_start() {
    const std::uint32_t keys = high(m_.args[1]), groups = high(m_.args[2]);
    const std::uint64_t flags = m_.args[4];
    if (keys > kMaxKeysPerPut) return malformed("key_count", keys, "at most", kMaxKeysPerPut);
    if (groups > keys) return malformed("group_count", groups, "at most key_count", keys);
    if ((flags & ~std::uint64_t{kHasParent}) != 0)
      return malformed("flags", flags, "the known ones are", kHasParent);
    const bool parent = (flags & kHasParent) != 0;
    const std::uint64_t bytes = put_start_request_bytes(keys, groups, parent);
    const std::uint64_t answer = put_start_answer_bytes(keys);
    if (auto error = refuse_region(bytes, answer)) return std::unexpected(std::move(*error));
    copy(0, keys, scratch_.keys);
    copy(keys * sizeof(KeyId), groups, scratch_.group_lens);
    event::PutStart put{client_,           request(),
                        PutId{m_.args[0]}, NamespaceRow{low(m_.args[1])},
                        low(m_.args[2]),   std::min(m_.args[3], kMaxWaitUs) * kNsPerUs,
                        scratch_.keys,     scratch_.group_lens,
                        std::nullopt};
    if (parent) {
      KeyId key;
      std::memcpy(&key, body_.data() + keys * sizeof(KeyId) + groups * std::uint64_t{4},
                  sizeof key);
      put.parent = key;
    }
    return finish(bytes, answer, put);
  }

  Result<DecodedRequest> put_commit() {
    const std::uint64_t count = m_.args[1];
    if (count > kMaxKeysPerPut) return malformed("count", count, "at most", kMaxKeysPerPut);
    const std::uint64_t bytes = put_commit_request_bytes(count);
    const std::uint64_t answer = put_commit_answer_bytes(count);
    if (auto error = refuse_region(bytes, answer)) return std::unexpected(std::move(*error));
    copy(0, count, scratch_.entries);
    return finish(bytes, answer,
                  event::PutCommit{client_, request(), PutId{m_.args[0]}, scratch_.entries});
  }

  Result<DecodedRequest> remove() {
    const std::uint64_t count = m_.args[1];
    if (m_.args[0] > ~std::uint32_t{0})
      return malformed("namespace row", m_.args[0], "at most", ~std::uint32_t{0});
    if (count > kMaxKeysPerPut) return malformed("key_count", count, "at most", kMaxKeysPerPut);
    const std::uint64_t bytes = count * sizeof(KeyId);
    if (auto error = refuse_region(bytes, 0)) return std::unexpected(std::move(*error));
    copy(0, count, scratch_.keys);
    return finish(bytes, 0,
                  event::Remove{client_, request(), NamespaceRow{low(m_.args[0])}, scratch_.keys});
  }

  Result<DecodedRequest> flush() {
    if (m_.args[0] > ~std::uint32_t{0})
      return malformed("namespace row", m_.args[0], "at most", ~std::uint32_t{0});
    if (m_.args[1] > 1) return malformed("family", m_.args[1], "at most", 1);
    return finish(0, 0,
                  event::Flush{client_, request(), NamespaceRow{low(m_.args[0])}, m_.args[1] == 1});
  }

  Result<DecodedRequest> drain() {
    constexpr auto kLast = static_cast<std::uint64_t>(DrainMode::kAsk);
    if (m_.args[0] > kLast) return malformed("drain mode", m_.args[0], "at most", kLast);
    return finish(0, 0, event::Drain{client_, request(), static_cast<DrainMode>(m_.args[0])});
  }

  Result<DecodedRequest> report_mismatch() {
    if (auto error = refuse_region(sizeof(MismatchReport), 0))
      return std::unexpected(std::move(*error));
    event::ReportMismatch report{client_, request(), {}};
    std::memcpy(&report.report, body_.data(), sizeof(MismatchReport));
    return finish(sizeof(MismatchReport), 0, report);
  }

  const segment::RingMessage& m_;
  const std::span<const std::byte> body_;
  const ClientId client_;
  DecodeScratch& scratch_;
};

}  // namespace

Result<DecodedRequest> decode_request(const segment::RingMessage& message,
                                      std::span<const std::byte> arena, ClientId client,
                                      std::uint32_t ring_generation, DecodeScratch& scratch) {
  if (message.ring_generation != ring_generation) {
    return malformed("ring_generation", message.ring_generation, "the ring has", ring_generation);
  }
  if (message.body_offset > arena.size())
    return malformed("body_offset", message.body_offset, "the arena has", arena.size());
  if (message.body_bytes > arena.size() - message.body_offset) {
    return malformed("body_bytes", message.body_bytes, "after body_offset there are",
                     arena.size() - message.body_offset);
  }
  if (message.body_bytes != 0 && message.body_offset % 8 != 0)
    return malformed("body_offset", message.body_offset, "it must be a multiple of", 8);
  return Decoder(message, arena.subspan(message.body_offset, message.body_bytes), client, scratch)
      .decode();
}

}  // namespace orlop::protocol
