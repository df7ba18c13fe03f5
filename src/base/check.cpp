// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace orlop {
namespace {

// A fixed buffer instead of a string: the heap may be what is broken.
class Line {
 public:
  void add(const char* text) {
    const std::size_t n = std::strlen(text);
    const std::size_t room = sizeof(text_) - 1 - used_;  // the last byte is kept for the newline
    const std::size_t taken = n < room ? n : room;
    std::memcpy(text_ + used_, text, taken);
    used_ += taken;
  }
  void add(int number) {
    char digits[16] = {};
    std::to_chars(digits, digits + sizeof(digits) - 1, number);
    add(digits);
  }
  void write_to_stderr() {
    text_[used_++] = '\n';
    std::size_t done = 0;
    while (done < used_) {
      const ssize_t n = ::write(STDERR_FILENO, text_ + done, used_ - done);
      if (n <= 0) return;  // nothing better can be done on the way down
      done += static_cast<std::size_t>(n);
    }
  }

 private:
  char text_[1024];
  std::size_t used_ = 0;
};

}  // namespace

void check_failed(const char* file, int line, const char* condition, const char* reason) {
  Line message;
  message.add("CHECK failed at ");
  message.add(file);
  message.add(":");
  message.add(line);
  message.add(": ");
  message.add(condition);
  if (reason[0] != '\0') {
    message.add(" (");
    message.add(reason);
    message.add(")");
  }
  message.write_to_stderr();
  std::abort();
}

}  // namespace orlop
