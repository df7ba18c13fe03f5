// SPDX-License-Identifier: Apache-2.0
// Non-temporal stores leave the order of stores: they wait in write-combining buffers, which no
// store buffer of the explorer models and no atomic sees. A streamed copy must therefore end with a
// fence, or the release that publishes a page may overtake its bytes.
//
// The shipped loops of room copy run here in a child process, one machine instruction at a time;
// this process looks at each and keeps count of the stores that nothing has drained.
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/planted.h"
#include "copy/kernels.h"

#if defined(__x86_64__)

namespace orlop::interleaving {
namespace {

using Code = std::array<std::uint8_t, 16>;  // the longest instruction has 15 bytes

// Instructions as the Intel manual (volume 2) encodes them.
bool is_prefix(std::uint8_t byte) {
  return byte == 0x66 || byte == 0xf2 || byte == 0xf3 || (byte & 0xf0) == 0x40;  // REX: 4x
}

// movntdq, movntps, movntpd, movnti and their VEX and EVEX forms.
bool is_non_temporal_store(const Code& code) {
  const auto in_map_0f = [](std::uint8_t opcode) {
    return opcode == 0xe7 || opcode == 0x2b || opcode == 0xc3;
  };
  if (code[0] == 0xc5) return in_map_0f(code[2]) && code[2] != 0xc3;
  if (code[0] == 0xc4) return (code[1] & 0x1f) == 1 && in_map_0f(code[3]) && code[3] != 0xc3;
  if (code[0] == 0x62) return (code[1] & 0x07) == 1 && in_map_0f(code[4]) && code[4] != 0xc3;
  std::size_t at = 0;
  while (at < 4 && is_prefix(code[at])) ++at;
  return code[at] == 0x0f && in_map_0f(code[at + 1]);
}

// sfence, mfence; a locked instruction drains as well.
bool is_store_fence(const Code& code) {
  return code[0] == 0xf0 || (code[0] == 0x0f && code[1] == 0xae && (code[2] & 0xf0) == 0xf0);
}

constexpr std::uint8_t kBreakpoint = 0xcc;  // int3

struct Seen {
  bool ended = false;             // the child came to its second breakpoint
  std::uint64_t stores = 0;       // non-temporal ones
  std::uint64_t outstanding = 0;  // of them since the last fence
};

Code code_at(pid_t child, std::uint64_t address) {
  Code code{};
  for (std::size_t at = 0; at < code.size(); at += 8) {
    const long word = ptrace(PTRACE_PEEKTEXT, child, address + at, nullptr);
    std::memcpy(&code[at], &word, sizeof word);
  }
  return code;
}

// From the breakpoint at which the child stands to the next one.
Seen step_through(pid_t child) {
  Seen seen;
  int status = 0;
  for (;;) {
    user_regs_struct registers{};
    if (ptrace(PTRACE_GETREGS, child, nullptr, &registers) != 0) return seen;
    const Code code = code_at(child, registers.rip);
    if (code[0] == kBreakpoint) break;
    if (is_non_temporal_store(code)) {
      ++seen.stores;
      ++seen.outstanding;
    } else if (is_store_fence(code)) {
      seen.outstanding = 0;
    }
    if (ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0) return seen;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return seen;
  }
  seen.ended = true;
  return seen;
}

Seen watch(const CopyKernels& kernels, std::byte* to, const std::byte* from, std::size_t bytes) {
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    asm volatile("int3");
    kernels.stream(to, from, bytes);
    asm volatile("int3");
    _exit(0);
  }
  Seen seen;
  int status = 0;
  if (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) seen = step_through(child);
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return seen;
}

struct Kind {
  const char* name;
  const CopyKernels* kernels;
};

std::vector<Kind> kinds() {
  std::vector<Kind> all;
  if (__builtin_cpu_supports("avx2") != 0) all.push_back({"avx2", &kAvx2Kernels});
  if (__builtin_cpu_supports("avx512f") != 0) all.push_back({"avx512", &kAvx512Kernels});
  return all;
}

// One copy of every kind, length and alignment. Counts them, and those after which stores were
// outstanding.
struct Result {
  unsigned copies = 0;
  unsigned unfenced = 0;
};

Result copy_all_ways(bool stop_at_first) {
  constexpr std::array<std::size_t, 4> kLengths = {4096, 4096 + 64 + 17, 16'384, 20'000};
  constexpr std::array<std::size_t, 2> kMisaligned = {0, 16};
  alignas(64) static std::array<std::byte, 32'768> from{}, to{};
  Result result;
  for (const Kind& kind : kinds()) {
    for (const std::size_t length : kLengths) {
      for (const std::size_t off : kMisaligned) {
        const Seen seen = watch(*kind.kernels, to.data() + off, from.data(), length);
        const std::string name = std::string(kind.name) + ", " + std::to_string(length) +
                                 " bytes, misaligned by " + std::to_string(off);
        EXPECT_TRUE(seen.ended) << name << ": the child was not seen to its end";
        EXPECT_GE(seen.stores, length / 128) << name << ": these are hardly streamed";
        ++result.copies;
        if (seen.outstanding != 0) ++result.unfenced;
        if (stop_at_first && result.unfenced != 0) return result;
      }
    }
  }
  return result;
}

TEST(StreamOrder, No_non_temporal_store_is_outstanding_when_a_copy_returns) {
  if (kinds().empty()) GTEST_SKIP() << "this processor has no streaming kernel";
  const Result result = copy_all_ways(false);
  EXPECT_GT(result.copies, 0U);
  EXPECT_EQ(result.unfenced, 0U);
}

TEST(StreamOrder, Missing_fence_is_found) {
  if (kinds().empty()) GTEST_SKIP() << "this processor has no streaming kernel";
  g_planted_bug = PlantedBug::kStreamWithoutFence;
  const Result result = copy_all_ways(true);
  g_planted_bug = PlantedBug::kNone;
  ASSERT_EQ(result.unfenced, 1U);
  RecordProperty("planted_bug", std::string(to_string(PlantedBug::kStreamWithoutFence)));
  RecordProperty("tries", std::to_string(result.copies));
  RecordProperty("unit", "copies");
  RecordProperty("oracle", "non-temporal stores outstanding at the return");
}

}  // namespace
}  // namespace orlop::interleaving

#endif
