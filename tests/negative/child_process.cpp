// SPDX-License-Identifier: Apache-2.0
#include "child_process.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "daemon.h"

namespace orlop::negative_test {

using process_test::eventually;

void Board::arrive_and_wait() {
  here.store(1);
  while (go.load() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Board::tell(const Error& error) {
  code = error.code;
  const std::size_t bytes = std::min(error.message.size(), sizeof message - 1);
  std::memcpy(message, error.message.data(), bytes);
  message[bytes] = 0;
  has_error.store(1);
}

ChildProcess::ChildProcess(const std::function<int(Board&)>& body) {
  void* memory =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED, "shared memory of a test");
  board_ = static_cast<Board*>(memory);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  CHECK(pid_ >= 0, "fork");
  if (pid_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(99);
  ::_exit(body(*board_));
}

ChildProcess::~ChildProcess() {
  if (!reaped_) kill();
  if (const auto forked = static_cast<pid_t>(board_->forked.load()); forked != 0)
    ::kill(forked, SIGKILL);
  ::munmap(board_, sizeof(Board));
}

bool ChildProcess::wait_here() {
  return eventually([this] { return board_->here.load() == 1; });
}

void ChildProcess::signal(int number) const {
  ::kill(pid_, number);
}

void ChildProcess::kill() {
  signal(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  reaped_ = true;
}

int ChildProcess::wait_exit() {
  int status = 0;
  const bool ended = eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; });
  if (!ended) {
    kill();
    return -1;
  }
  reaped_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Result<void> in_forked_child(const std::function<Result<void>()>& call) {
  ChildProcess child([&call](Board& board) {
    const auto result = call();
    if (!result) board.tell(result.error());
    return 0;
  });
  if (child.wait_exit() != 0) return fail(ErrorCode::kSystem, "the forked child did not end well");
  if (child.board().has_error.load() == 0) return {};
  return std::unexpected(child.board().told());
}

}  // namespace orlop::negative_test
