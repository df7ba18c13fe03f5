// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

namespace orlop::cli {
namespace {

// The read end of a pipe whose write end the progress writes to: no terminal.
class Progress_pipe : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::pipe(ends_.data()), 0); }
  void TearDown() override { ::close(ends_[0]); }
  std::string finish_and_read() {
    ::close(ends_[1]);
    std::string text(4096, '\0');
    const ssize_t got = ::read(ends_[0], text.data(), text.size());
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
  }
  std::array<int, 2> ends_{};
};

TEST_F(Progress_pipe, Plain_lines_at_every_quarter_only) {
  {
    Progress progress(ends_[1], "demo", false);
    for (std::uint64_t i = 0; i <= 1000; ++i) progress.update(i, 1000, "note", i);
  }
  EXPECT_EQ(finish_and_read(),
            "demo: 250 of 1,000  note\n"
            "demo: 500 of 1,000  note\n"
            "demo: 750 of 1,000  note\n"
            "demo: 1,000 of 1,000  note\n");
}

TEST_F(Progress_pipe, Quiet_writes_nothing) {
  {
    Progress progress(ends_[1], "demo", true);
    progress.update(1, 1, "", 0);
    progress.say("hello");
  }
  EXPECT_EQ(finish_and_read(), "");
}

TEST_F(Progress_pipe, Nothing_to_do_is_no_division_by_zero) {
  {
    Progress(ends_[1], "demo", false).update(0, 0, "", 0);
  }
  EXPECT_EQ(finish_and_read(), "");
}

}  // namespace
}  // namespace orlop::cli
