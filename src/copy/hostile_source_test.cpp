// SPDX-License-Identifier: Apache-2.0
// A process that keeps writing into a slot while we read it must not get bytes past the check: what
// is delivered is what was summed. A racing thread almost never hits the few nanoseconds between
// two loads of one word; here the processor traps after *every instruction* of the copy and the
// handler changes every word of the source. Any second load is seen, every time.
#include <gtest/gtest.h>

#include "copy/copy.h"
#include "copy/test_bytes.h"

#if defined(__x86_64__)
#include <signal.h>

#include <vector>

namespace orlop {
namespace {

// ThreadSanitizer holds signals back until a call that it knows, so that nothing would be changed
// in between.
#if defined(__SANITIZE_THREAD__)
constexpr bool kSignalsDeferred = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kSignalsDeferred = true;
#else
constexpr bool kSignalsDeferred = false;
#endif
#else
constexpr bool kSignalsDeferred = false;
#endif

// Chunks side by side, then blocks, single registers and pairs of each kind, and a ragged tail.
constexpr std::size_t kWords = 4 * 1024 / 2 + 160;
constexpr std::size_t kBytes = 8 * kWords - 3;
constexpr unsigned long long kTrapFlag = 0x100;  // EFLAGS.TF

// What the handler changes; volatile: under the eyes of the copying code.
alignas(64) volatile std::uint64_t source[kWords];
volatile std::uint64_t steps;

void change_source(int) {
  for (std::size_t i = 0; i < kWords; ++i) source[i] = source[i] + 0x9e3779b97f4a7c15u;
  steps = steps + 1;
}

std::uint64_t stepped_copy(const CopyEngine& engine, std::byte* dst) {
  const auto* const src = reinterpret_cast<const std::byte*>(const_cast<std::uint64_t*>(source));
  __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | kTrapFlag);
  const std::uint64_t sum = engine.copy_in(dst, src, kBytes, kTestIdentity);
  __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~kTrapFlag);
  return sum;
}

// The middle of a value in rows that leave gaps in the copy.
constexpr std::size_t kRowBytes = 1'032, kRowGap = 64, kRows = 7, kFirstWord = 1'000;
static_assert(kRows * kRowBytes <= kBytes);

std::uint64_t stepped_rows(const CopyEngine& engine, std::byte* dst, bool around_cache) {
  const RowRun rows{.dst = dst,
                    .src = reinterpret_cast<const std::byte*>(const_cast<std::uint64_t*>(source)),
                    .row_bytes = kRowBytes,
                    .count = kRows,
                    .dst_step = kRowBytes + kRowGap,
                    .src_step = kRowBytes,
                    .first_word = kFirstWord,
                    .word_step = kRowBytes / 4};
  __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | kTrapFlag);
  const std::uint64_t sum = engine.move_rows(rows, around_cache);
  __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~kTrapFlag);
  return sum;
}

class TrapHandler {
 public:
  TrapHandler() {
    struct sigaction action = {};
    action.sa_handler = change_source;
    sigaction(SIGTRAP, &action, &former_);
  }
  TrapHandler(const TrapHandler&) = delete;
  TrapHandler& operator=(const TrapHandler&) = delete;
  ~TrapHandler() { sigaction(SIGTRAP, &former_, nullptr); }

 private:
  struct sigaction former_ = {};
};

TEST(HostileSource, Changed_after_every_instruction_sum_is_of_delivered_bytes) {
  if (kSignalsDeferred) GTEST_SKIP() << "ThreadSanitizer defers the traps";
  const TrapHandler handler;
  for (const CopyKind kind : CopyEngine::supported_kinds()) {
    for (const std::uint64_t stream_bytes : {std::uint64_t{0}, kDefaultStreamOutBytes}) {
      for (const std::size_t misalignment : {0U, 16U, 3U}) {
        const CopyEngine engine(kind, stream_bytes);
        alignas(64) std::byte buffer[kBytes + 64];
        std::byte* const dst = buffer + misalignment;
        steps = 0;
        const std::uint64_t sum = stepped_copy(engine, dst);
        EXPECT_GT(steps, kBytes / 64) << "the traps did not come";
        EXPECT_TRUE(engine.verify(dst, kBytes, kTestIdentity, sum))
            << to_string(kind) << " stream_bytes " << stream_bytes << " dst + " << misalignment;
      }
    }
  }
}

TEST(HostileSource, Rows_changed_after_every_instruction_sum_is_of_delivered_bytes) {
  if (kSignalsDeferred) GTEST_SKIP() << "ThreadSanitizer defers the traps";
  const TrapHandler handler;
  for (const CopyKind kind : CopyEngine::supported_kinds()) {
    for (const bool around_cache : {false, true}) {
      for (const std::size_t misalignment : {0U, 3U}) {
        const CopyEngine engine(kind);
        alignas(64) std::byte buffer[kRows * (kRowBytes + kRowGap) + 64];
        std::byte* const dst = buffer + misalignment;
        steps = 0;
        const std::uint64_t sum = stepped_rows(engine, dst, around_cache);
        EXPECT_GT(steps, kRows * kRowBytes / 64) << "the traps did not come";
        std::uint64_t delivered = 0;
        for (std::size_t i = 0; i < kRows; ++i) {
          delivered += engine.raw_sum({dst + i * (kRowBytes + kRowGap), kRowBytes},
                                      kFirstWord + i * kRowBytes / 4);
        }
        EXPECT_EQ(sum, delivered) << to_string(kind) << " around " << around_cache << " dst + "
                                  << misalignment;
      }
    }
  }
}

}  // namespace
}  // namespace orlop
#endif
