// SPDX-License-Identifier: Apache-2.0
// For process tests of the command line: runs `orlop` with its output in files, in a folder that is
// also the program's TMPDIR, so that a test sees what was left behind.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "platform/process.h"

namespace orlop {

struct Ran {
  int status = -1;  // exit status; 1000 + signal; -1: had to be killed at the deadline
  std::string out;
  std::string err;
};

class CommandLine {
 public:
  // environment: "NAME=value", added to a small fixed one.
  explicit CommandLine(std::vector<std::string> environment = {});
  CommandLine(const CommandLine&) = delete;
  ~CommandLine();

  // Waits for its end; kills it after `limit`.
  Ran run(std::vector<std::string> arguments, MonoNs limit = 60 * kNsPerSecond);

  // Started, not waited for; ended (SIGTERM) with this object at the latest.
  class Running;
  std::unique_ptr<Running> start(std::vector<std::string> arguments);

  const std::string& folder() const { return folder_; }
  // What TMPDIR holds apart from the outputs.
  std::vector<std::string> left_behind() const;
  // Processes whose command line names our folder.
  std::vector<std::string> living_processes() const;

 private:
  std::string folder_;
  std::string outputs_;
  std::vector<std::string> environment_;
  int runs_ = 0;
};

class CommandLine::Running {
 public:
  Running(Child child, std::string out_path, std::string err_path);
  ~Running();
  pid_t pid() const { return child_.pid; }
  void signal(int number) const;
  std::string out() const;
  std::string err() const;
  // True once happened() is true; false at the deadline or the process's end.
  bool wait_until(const std::function<bool()>& happened, MonoNs limit) const;
  Ran wait(MonoNs limit);

 private:
  Child child_;
  std::string out_path_, err_path_;
};

}  // namespace orlop
