// SPDX-License-Identifier: Apache-2.0
// A terminal that a program draws on for a while: the alternate screen (what was there before comes
// back), no echo, keys without Enter. xterm's sequences, which every terminal of today knows.
//
// Guarantees: the destructor restores everything, also after Ctrl-C, SIGTERM and SIGHUP, which end
// the wait instead of the program; a resize ends the wait too.
// Thread: one, main's. One object at a time; it catches signals of the whole process.
#pragma once

#include <signal.h>
#include <termios.h>

#include <string>

#include "base/ids.h"
#include "cli/top_view.h"

namespace orlop::cli {

class Terminal {
 public:
  // Requires: output is a terminal. input: keys, if it is one too.
  Terminal(int input, int output);
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal();

  ScreenSize size() const;
  // text: lines, at most as many as the screen has.
  void draw(const std::string& text) const;

  enum class Woken { kTime, kResize, kQuit, kInterrupt };
  // Until the deadline (CLOCK_MONOTONIC), a resize, the key q, or a signal that ends the program.
  Woken wait(MonoNs deadline);

 private:
  int input_, output_;
  bool saved_ = false;  // before_ is to be set again
  bool keys_ = false;   // the keyboard is there
  termios before_{};
  sigset_t unblocked_{};
  struct sigaction resize_before_{};
};

}  // namespace orlop::cli
