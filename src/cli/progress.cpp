// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "cli/report.h"

namespace orlop::cli {
namespace {

constexpr MonoNs kRedrawNs = 100 * kNsPerMs;
constexpr std::size_t kBarWidth = 24;
constexpr const char* kClearLine = "\r\033[K";

}  // namespace

Progress::Progress(int fd, std::string label, bool quiet)
    : fd_(fd), label_(std::move(label)), quiet_(quiet), terminal_(is_terminal(fd)) {}

void Progress::update(std::uint64_t done, std::uint64_t total, const std::string& note,
                      MonoNs now) {
  if (quiet_ || total == 0) return;
  done_ = std::min(done, total);
  total_ = total;
  note_ = note;
  const auto quarter = static_cast<unsigned>(done_ * 4 / total_);
  if (terminal_) {
    if (drawn_ && now - last_draw_ < kRedrawNs && done_ < total_) return;
    last_draw_ = now;
    draw();
  } else if (quarter > last_quarter_) {
    last_quarter_ = quarter;
    write(label_ + ": " + format_count(done_) + " of " + format_count(total_) + "  " + note_ +
          "\n");
  }
}

void Progress::draw() {
  std::string line = label_ + " " + bar(ratio(done_, total_), kBarWidth) + " " +
                     format_count(done_) + "/" + format_count(total_) + "  " + note_;
  // A line that wraps could not be redrawn. Plain text only, so bytes are columns.
  const std::size_t columns = terminal_width(fd_) - 1;
  if (line.size() > columns) line.resize(columns);
  write(kClearLine + line);
  drawn_ = true;
}

void Progress::say(const std::string& line) {
  if (quiet_) return;
  if (drawn_) write(kClearLine);
  write(line + "\n");
  if (drawn_) draw();
}

void Progress::finish() {
  if (drawn_) write("\n");
  drawn_ = false;
}

void Progress::write(const std::string& text) const {
  // Progress is not worth failing for: a closed stderr changes nothing.
  [[maybe_unused]] const ssize_t written = ::write(fd_, text.data(), text.size());
}

}  // namespace orlop::cli
