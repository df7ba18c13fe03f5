// SPDX-License-Identifier: Apache-2.0
#include "ran_program.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/check.h"
#include "platform/clock.h"
#include "platform/file_descriptor.h"

namespace orlop {
namespace {

namespace fs = std::filesystem;

constexpr MonoNs kPollNs = 10 * kNsPerMs;

// Of a file in /proc whose process ends meanwhile: what was read until then. An iterator over the
// stream would throw.
std::string read_all(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

FileDescriptor create(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  CHECK(file, "output files can be made in our own folder");
  return file;
}

}  // namespace

CommandLine::CommandLine(std::vector<std::string> environment)
    : environment_(std::move(environment)) {
  std::string pattern = (fs::temp_directory_path() / "orlop-cli-XXXXXX").string();
  CHECK(::mkdtemp(pattern.data()) != nullptr);
  folder_ = pattern;
  outputs_ = folder_ + "/outputs";
  fs::create_directory(outputs_);
  environment_.insert(environment_.end(), {"TMPDIR=" + folder_, "PATH=/usr/bin:/bin",
                                           "ORLOP_SOCKET=" + folder_ + "/default.sock"});
}

CommandLine::~CommandLine() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::unique_ptr<CommandLine::Running> CommandLine::start(std::vector<std::string> arguments) {
  const std::string base = outputs_ + "/" + std::to_string(runs_++);
  const FileDescriptor out = create(base + ".out"), err = create(base + ".err");
  SpawnRequest request;
  request.path = ORLOP_PATH;
  request.arguments = std::move(arguments);
  request.arguments.insert(request.arguments.begin(), "orlop");
  request.environment = environment_;
  request.keep = {{out.get(), 1}, {err.get(), 2}};
  request.parent_death_signal = SIGTERM;
  auto child = spawn(request);
  CHECK(child.has_value(), "orlop can be started");
  return std::make_unique<Running>(std::move(*child), base + ".out", base + ".err");
}

Ran CommandLine::run(std::vector<std::string> arguments, MonoNs limit) {
  return start(std::move(arguments))->wait(limit);
}

std::vector<std::string> CommandLine::left_behind() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (entry.path() != outputs_) names.push_back(entry.path().filename());
  }
  return names;
}

std::vector<std::string> CommandLine::living_processes() const {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    // TMPDIR is our folder in all that we started, and in what that started.
    if (!read_all(entry.path() / "environ").contains("TMPDIR=" + folder_)) continue;
    std::string command = read_all(entry.path() / "cmdline");
    if (!command.empty()) found.push_back(std::move(command));  // empty: dead, not waited for yet
  }
  return found;
}

CommandLine::Running::Running(Child child, std::string out_path, std::string err_path)
    : child_(std::move(child)), out_path_(std::move(out_path)), err_path_(std::move(err_path)) {}

CommandLine::Running::~Running() {
  if (child_.pid == 0) return;
  signal(SIGTERM);
  (void)wait(20 * kNsPerSecond);
}

void CommandLine::Running::signal(int number) const {
  (void)child_.pidfd.send_signal(number);
}

std::string CommandLine::Running::out() const {
  return read_all(out_path_);
}
std::string CommandLine::Running::err() const {
  return read_all(err_path_);
}

bool CommandLine::Running::wait_until(const std::function<bool()>& happened, MonoNs limit) const {
  const MonoNs deadline = monotonic_ns() + limit;
  while (!happened()) {
    if (monotonic_ns() > deadline) return false;
    // Its end is the event that can be waited for; everything else is looked at.
    const auto ended = child_.pidfd.wait_exit(monotonic_ns() + kPollNs);
    if (ended && *ended) return happened();
  }
  return true;
}

Ran CommandLine::Running::wait(MonoNs limit) {
  Ran ran;
  auto ended = reap_child(child_.pidfd, monotonic_ns() + limit);
  CHECK(ended.has_value(), "it is our child");
  if (*ended) {
    ran.status = (*ended)->by_signal ? 1000 + (*ended)->value : (*ended)->value;
  } else {
    signal(SIGKILL);
    (void)reap_child(child_.pidfd, kNever);
  }
  child_ = {};
  ran.out = out();
  ran.err = err();
  return ran;
}

}  // namespace orlop
