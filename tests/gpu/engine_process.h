// SPDX-License-Identifier: Apache-2.0
// An engine of the end-to-end program: this program again, as a child with a pipe on either side.
// Thread: one.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "platform/file_descriptor.h"
#include "platform/process.h"
#include "worker.h"

namespace orlop::gpu_test {

class EngineProcess {
 public:
  // Errors: kSystem (could not be started).
  static Result<EngineProcess> start(const WorkerOptions& options);
  EngineProcess(EngineProcess&&) = default;
  EngineProcess& operator=(EngineProcess&&) = default;
  ~EngineProcess();  // kills it

  pid_t pid() const { return child_.pid; }
  // The next line that it prints, as JSON; none: it has closed its output or said no JSON.
  std::optional<nlohmann::ordered_json> next_line(MonoNs deadline);
  Result<ExitStatus> wait(MonoNs deadline);  // kDeadline
  // Its standard input ends, and that of its children.
  void end_input() { to_.reset(); }

 private:
  EngineProcess() = default;

  Child child_;
  FileDescriptor to_, from_;
  std::string read_;
  bool reaped_ = false;
};

// Runs it to its end. Its line, with the exit status when that is not as it should be.
nlohmann::ordered_json run_engine(const WorkerOptions& options);

}  // namespace orlop::gpu_test
