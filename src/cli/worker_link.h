// SPDX-License-Identifier: Apache-2.0
// What `demo` and `replay` say to their worker processes and hear from them: small messages over a
// Unix socket pair. Both ends are the same program, so bodies are plain structs.
// Thread: one an end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/histogram.h"
#include "base/ids.h"
#include "orlop/error.h"
#include "orlop/outcome.h"
#include "platform/file_descriptor.h"
#include "platform/unix_socket.h"

namespace orlop::cli {

// Number under which a worker finds its end.
inline constexpr int kWorkerLinkNumber = 3;

enum class Word : std::uint32_t {
  // worker -> parent
  kReady = 1,    // attached, namespace open
  kProgress,     // ProgressBody
  kAtBarrier,    // half of the requests served, no put under way
  kMarked,       // MarkedBody: what must survive
  kServedAgain,  // OutageBody: the first put after the kill was stored
  kReadBack,     // ReadBackBody
  kDone,         // TallyBody; the worker ends
  kFailed,       // text; the worker ends
  // of `bench` only; bodies in bench_worker.h
  kBenchCount = 50,
  kBenchWindowEnded,
  kBenchLooked,
  kBenchBalance,
  // parent -> worker
  kGo = 100,
  kMark,
  kKilled,
  kReadBackNow,
  kResume,
  // of `bench` only
  kBenchPut = 150,
  kBenchGet,
  kBenchWindow,
  kBenchLook,
  kBenchQuiet,
  kBenchEnd,
};

struct ProgressBody {
  std::uint64_t requests = 0, pages = 0, hit_pages = 0;
};
struct MarkedBody {
  std::uint64_t recorded = 0;  // pages this worker has stored so far
  std::uint64_t resident = 0;  // of those, the ones not evicted before the kill
};
struct OutageBody {
  MonoNs first_stored_at = 0;
  MonoNs longest_gap = 0;  // between two local hits, from the mark to first_stored_at
  std::uint64_t hits = 0;  // local hits in that time, pages
};
struct ReadBackBody {
  std::uint64_t read_back = 0, missing = 0;
};

// What a worker did, from its start to its end.
struct TallyBody {
  std::uint64_t requests = 0;
  std::uint64_t pages = 0;      // asked for
  std::uint64_t hit_pages = 0;  // restored
  std::uint64_t verified_bytes = 0;
  std::uint64_t checksum_mismatches = 0;
  std::uint64_t wrong_pages = 0;  // checksum right, bytes wrong
  std::uint64_t cross_worker_pages = 0;
  std::uint64_t stored_pages = 0;
  std::uint64_t outcomes[kOutcomeCount] = {};         // of all keys put
  std::uint64_t miss_reasons[kMissReasonCount] = {};  // of all gets
  Histogram plan_ns, get_ns, put_ns;

  std::uint64_t mismatches() const { return checksum_mismatches + wrong_pages; }
  void add(const TallyBody& other);
};
static_assert(std::is_trivially_copyable_v<TallyBody>);
static_assert(sizeof(TallyBody) + sizeof(Word) <= kMaxMessageBytes);

struct WorkerMessage {
  Word word{};
  std::vector<std::byte> body;

  // Errors: kCorrupt (not this struct's size).
  template <class Body>
  Result<Body> as() const {
    static_assert(std::is_trivially_copyable_v<Body>);
    if (body.size() != sizeof(Body)) return fail(ErrorCode::kCorrupt, "message of another size");
    Body out;
    std::memcpy(&out, body.data(), sizeof out);
    return out;
  }
  std::string text() const { return {reinterpret_cast<const char*>(body.data()), body.size()}; }
};

class WorkerLink {
 public:
  WorkerLink() = default;
  explicit WorkerLink(FileDescriptor socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  // Errors: kDeadline (the other end does not read), kClosed (it has gone), kSystem.
  Result<void> send(Word word, MonoNs deadline) { return send_bytes(word, {}, deadline); }
  template <class Body>
  Result<void> send(Word word, const Body& body, MonoNs deadline) {
    static_assert(std::is_trivially_copyable_v<Body>);
    return send_bytes(word, std::as_bytes(std::span(&body, 1)), deadline);
  }
  Result<void> send_text(Word word, const std::string& text, MonoNs deadline);
  // Next message; none at the deadline (0: only looks) or when a signal came. Errors: kClosed (the
  // other end has gone), kSystem.
  Result<std::optional<WorkerMessage>> receive(MonoNs deadline);

 private:
  Result<void> send_bytes(Word word, std::span<const std::byte> body, MonoNs deadline);

  FileDescriptor socket_;
};

}  // namespace orlop::cli
