// SPDX-License-Identifier: Apache-2.0
// `orlop top` on a real terminal (a pty): draws, follows resizes and restarts, ends cleanly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "daemon.h"
#include "platform/clock.h"
#include "ran_program.h"

namespace orlop::process_test {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

constexpr char kEnter[] = "\033[?1049h";
constexpr char kLeave[] = "\033[?1049l";
constexpr char kClear[] = "\033[J";  // ends every drawing

// `orlop top` with a pty of its own as its terminal.
class TopOnTerminal {
 public:
  TopOnTerminal(const std::string& socket, const char* interval) {
    // Made first, to keep a descriptor of its other side: the settings are looked at after the end.
    winsize size{24, 80, 0, 0};
    int slave = -1, master = -1;
    EXPECT_EQ(::openpty(&master, &slave, nullptr, nullptr, &size), 0);
    master_ = FileDescriptor(master);
    slave_ = FileDescriptor(slave);
    EXPECT_EQ(::tcgetattr(slave, &before_), 0);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::login_tty(slave);
    ::setenv("TERM", "xterm", 1);
    ::execl(ORLOP_PATH, "orlop", "top", "--socket", socket.c_str(), "--interval", interval,
            static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ~TopOnTerminal() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  void type(const std::string& keys) {
    EXPECT_EQ(::write(master_.get(), keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  void resize(unsigned short columns, unsigned short rows) {
    const winsize size{rows, columns, 0, 0};
    EXPECT_EQ(::ioctl(master_.get(), TIOCSWINSZ, &size), 0);
  }
  // Everything that was written so far.
  const std::string& output() {
    for (;;) {
      pollfd ready{master_.get(), POLLIN, 0};
      char buffer[4096];
      if (::poll(&ready, 1, 0) <= 0) return output_;
      const ssize_t bytes = ::read(master_.get(), buffer, sizeof buffer);
      if (bytes <= 0) return output_;
      output_.append(buffer, static_cast<std::size_t>(bytes));
    }
  }
  // A drawing begun after this call's begin contains it.
  bool shows(const std::string& text) {
    const std::size_t from = output().size();
    return eventually([&] {
      const std::size_t at = output().find(text, from);
      return at != std::string::npos && output_.find(kClear, at) != std::string::npos;
    });
  }
  bool shown(const std::string& text) {  // in any drawing, also an earlier one
    return eventually([&] { return output().find(text) != std::string::npos; });
  }
  // Exit status, 1000 + signal.
  int wait_exit() {
    int status = 0;
    const bool ended = eventually([&] {
      (void)output();  // a full pty would stop it
      return ::waitpid(pid_, &status, WNOHANG) == pid_;
    });
    EXPECT_TRUE(ended);
    if (!ended) return -1;
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  termios settings() const {
    termios now{};
    EXPECT_EQ(::tcgetattr(slave_.get(), &now), 0);
    return now;
  }
  void expect_restored() {
    EXPECT_GT(output().rfind(kLeave), output_.rfind(kEnter));
    EXPECT_NE(output_.rfind("\033[?25h"), std::string::npos) << "the cursor is back";
    EXPECT_EQ(settings().c_lflag, before_.c_lflag);
    EXPECT_EQ(settings().c_cc[VSUSP], before_.c_cc[VSUSP]);
    EXPECT_EQ(settings().c_cc[VQUIT], before_.c_cc[VQUIT]);
  }

 private:
  FileDescriptor master_, slave_;
  termios before_{};
  pid_t pid_ = -1;
  std::string output_;
};

class TopProcess : public ::testing::Test {
 protected:
  void SetUp() override {
    daemon_.emplace(folder_.path());
    ASSERT_TRUE(daemon_->wait_serving()) << daemon_->log();
  }
  const TemporaryFolder folder_;
  std::optional<Daemon> daemon_;
};

TEST_F(TopProcess, Draws_and_q_ends_it_with_the_terminal_restored) {
  TopOnTerminal top(daemon_->socket(), "100ms");
  ASSERT_TRUE(top.shown(kEnter));
  EXPECT_TRUE(top.shows("clients  0")) << top.output();
  EXPECT_THAT(top.output(), HasSubstr("ready"));
  EXPECT_EQ(top.settings().c_lflag & (ICANON | ECHO), 0u);
  top.type("q");
  EXPECT_EQ(top.wait_exit(), 0);
  top.expect_restored();
}

// Ctrl-\ and Ctrl-Z would leave the screen and the mode of the keyboard behind.
TEST_F(TopProcess, Keys_that_quit_or_stop_a_program_do_nothing) {
  TopOnTerminal top(daemon_->socket(), "100ms");
  ASSERT_TRUE(top.shown("clients  0")) << top.output();
  top.type("\034\032");
  EXPECT_TRUE(top.shows("clients  0")) << top.output();
  top.type("q");
  EXPECT_EQ(top.wait_exit(), 0);
  top.expect_restored();
}

TEST_F(TopProcess, Ctrl_c_ends_it_with_the_terminal_restored) {
  TopOnTerminal top(daemon_->socket(), "1h");
  ASSERT_TRUE(top.shown("clients  0")) << top.output();
  top.type("\003");
  EXPECT_EQ(top.wait_exit(), 130);
  top.expect_restored();
}

TEST_F(TopProcess, A_resize_is_drawn_at_once) {
  TopOnTerminal top(daemon_->socket(), "1h");  // no drawing by time
  ASSERT_TRUE(top.shown(kClear)) << top.output();
  const std::size_t before = top.output().size();
  top.resize(40, 10);
  ASSERT_TRUE(eventually([&] { return top.output().find(kClear, before) != std::string::npos; }));
  std::string drawn = top.output().substr(before);
  std::size_t lines = 1;
  for (const char c : drawn) lines += c == '\n' ? 1 : 0;
  EXPECT_LE(lines, 10u) << drawn;
  top.type("q");
  EXPECT_EQ(top.wait_exit(), 0);
}

TEST_F(TopProcess, Survives_a_restarted_server_and_a_new_node) {
  TopOnTerminal top(daemon_->socket(), "100ms");
  ASSERT_TRUE(top.shown("clients  0")) << top.output();
  daemon_->kill_server();
  EXPECT_TRUE(top.shows("1 restarts (1 seen)")) << top.output();
  daemon_->terminate();
  (void)daemon_->wait_exit();
  EXPECT_TRUE(top.shows("no node, retrying")) << top.output();
  daemon_.emplace(folder_.path());
  EXPECT_TRUE(top.shows("0 restarts (2 seen)")) << top.output();
  top.type("q");
  EXPECT_EQ(top.wait_exit(), 0);
  top.expect_restored();
}

TEST_F(TopProcess, Without_a_terminal_it_is_one_plain_screen) {
  CommandLine orlop;
  const Ran ran = orlop.run({"top", "--socket", daemon_->socket(), "--interval", "100ms"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("clients  0"));
  EXPECT_EQ(ran.out.find('\033'), std::string::npos);
  const Ran none = orlop.run({"top", "--once"});
  EXPECT_EQ(none.status, 3);
  EXPECT_THAT(none.out, HasSubstr("no node"));
  EXPECT_EQ(orlop.run({"top", "--interval", "1ms"}).status, 2);
}

TEST_F(TopProcess, Json_is_a_line_an_interval_until_interrupted) {
  CommandLine orlop;
  const auto top =
      orlop.start({"top", "--json", "--socket", daemon_->socket(), "--interval", "100ms"});
  const auto lines = [&] {
    std::vector<Json> out;
    std::istringstream text(top->out());
    for (std::string line; std::getline(text, line);) {
      Json parsed = Json::parse(line, nullptr, false);
      if (!parsed.is_discarded()) out.push_back(std::move(parsed));
    }
    return out;
  };
  EXPECT_TRUE(top->wait_until([&] { return lines().size() >= 3; }, 20 * kNsPerSecond));
  top->signal(SIGINT);
  EXPECT_EQ(top->wait(20 * kNsPerSecond).status, 130);
  EXPECT_EQ(lines()[0]["node"], "ready");
  EXPECT_TRUE(lines()[0]["rates"]["seconds"].is_null());
  EXPECT_GT(lines()[1]["rates"]["seconds"].get<double>(), 0.09);
}

}  // namespace
}  // namespace orlop::process_test
