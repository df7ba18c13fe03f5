// SPDX-License-Identifier: Apache-2.0
// A program that is put in orlopd's place and is no good: what it does wrong is told by
// ORLOP_TEST_PROGRAM. It answers --preflight like a good one of version 9.9.9 unless that is what
// it does wrong.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "protocol/attach/frames.h"
#include "protocol/attach/preflight.h"

int main(int argc, char** argv) {
  const char* told = std::getenv("ORLOP_TEST_PROGRAM");
  const std::string_view wrong = told == nullptr ? "" : told;
  bool preflight = false;
  for (int i = 1; i < argc; ++i) preflight |= std::strcmp(argv[i], "--preflight") == 0;
  if (preflight) {
    if (wrong == "mute") ::pause();
    if (wrong == "garbage") {
      std::puts("hello");
      return 0;
    }
    orlop::protocol::Preflight answer;
    answer.version = "9.9.9";
    if (wrong == "other_abi") ++answer.abi;
    std::fputs(orlop::protocol::format_preflight(answer).c_str(), stdout);
    return 0;
  }
  if (wrong == "hangs") ::pause();
  if (wrong == "says_serving") {
    // Under the number of node/keeper.h, whose room this program is no part of.
    const auto frame = orlop::protocol::encode_bare(orlop::protocol::FrameKind::kServing);
    if (::send(3, frame.data(), frame.size(), MSG_NOSIGNAL) < 0) return 2;
    ::pause();
  }
  if (wrong == "condemns") return 65;
  if (wrong == "configuration") return 64;
  return 1;
}
