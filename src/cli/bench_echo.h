// SPDX-License-Identifier: Apache-2.0
// The reference of the latency rows: one byte over a Unix socket to another process and back.
#pragma once

#include "orlop/error.h"
#include "platform/file_descriptor.h"
#include "platform/process.h"

namespace orlop::cli {

class EchoProcess {
 public:
  static Result<EchoProcess> start();
  EchoProcess(EchoProcess&&) = default;
  EchoProcess& operator=(EchoProcess&&) = delete;
  ~EchoProcess();  // ends it

  pid_t pid() const { return child_.pid; }
  // Seconds. Errors: kClosed (it has gone), kSystem.
  Result<double> round_trip();

 private:
  EchoProcess() = default;
  Child child_;
  FileDescriptor socket_;
};

// The hidden subcommand `bench-echo`: gives every byte back until the other end closes.
int bench_echo_main();

}  // namespace orlop::cli
