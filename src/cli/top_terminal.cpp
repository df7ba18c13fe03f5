// SPDX-License-Identifier: Apache-2.0
#include "cli/top_terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "cli/interrupt.h"
#include "platform/clock.h"

namespace orlop::cli {
namespace {

volatile sig_atomic_t resize_seen = 0;

void note_resize(int) {
  resize_seen = 1;
}

void write_all(int fd, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t written = ::write(fd, text.data() + at, text.size() - at);
    if (written <= 0) return;  // the terminal has gone; SIGHUP follows
    at += static_cast<std::size_t>(written);
  }
}

constexpr char kEnter[] = "\033[?1049h\033[?25l";  // alternate screen, no cursor
constexpr char kLeave[] = "\033[?25h\033[?1049l";

}  // namespace

Terminal::Terminal(int input, int output) : input_(input), output_(output) {
  // Signals come in only while we wait, so that none is missed between a look and a wait.
  sigset_t ours;
  sigemptyset(&ours);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) sigaddset(&ours, number);
  ::sigprocmask(SIG_BLOCK, &ours, &unblocked_);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) sigdelset(&unblocked_, number);
  catch_interrupts();
  struct sigaction resize{};
  resize.sa_handler = note_resize;
  ::sigaction(SIGWINCH, &resize, &resize_before_);
  if (::tcgetattr(input_, &before_) == 0) {
    saved_ = keys_ = true;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);  // ISIG stays: Ctrl-C is a signal
    // A program that is stopped or dumps its core would leave its screen and this mode behind.
    raw.c_cc[VSUSP] = raw.c_cc[VQUIT] = _POSIX_VDISABLE;
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    ::tcsetattr(input_, TCSADRAIN, &raw);
  }
  write_all(output_, kEnter);
}

Terminal::~Terminal() {
  write_all(output_, kLeave);
  if (saved_) ::tcsetattr(input_, TCSADRAIN, &before_);
  ::sigaction(SIGWINCH, &resize_before_, nullptr);
  ::sigprocmask(SIG_SETMASK, &unblocked_, nullptr);
}

ScreenSize Terminal::size() const {
  winsize size{};
  if (::ioctl(output_, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

void Terminal::draw(const std::string& text) const {
  // Over the old lines, each cleared behind its end: no flicker.
  std::string out = "\033[H";
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (begin > 0) out += "\r\n";  // not after the last line: a full screen must not scroll
    out.append(text, begin, end - begin);
    out += "\033[K";
    begin = end + 1;
  }
  write_all(output_, out + "\033[J");
}

Terminal::Woken Terminal::wait(MonoNs deadline) {
  for (;;) {
    if (interrupted()) return Woken::kInterrupt;
    if (resize_seen != 0) {
      resize_seen = 0;
      return Woken::kResize;
    }
    const MonoNs left = time_left(deadline, monotonic_ns());
    if (left == 0) return Woken::kTime;
    pollfd keys{keys_ ? input_ : -1, POLLIN, 0};
    const timespec limit{static_cast<time_t>(left / kNsPerSecond),
                         static_cast<long>(left % kNsPerSecond)};
    if (::ppoll(&keys, 1, &limit, &unblocked_) <= 0) continue;
    char key = 0;
    const ssize_t got = ::read(input_, &key, 1);
    if (got <= 0) {
      keys_ = false;  // end of the keyboard: go on without
    } else if (key == 'q' || key == 'Q') {
      return Woken::kQuit;
    }
  }
}

}  // namespace orlop::cli
