// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"

#include <cstdio>

#include "cli/interrupt.h"

namespace orlop::cli {

ExitCode report_error(const char* name, const Error& error) {
  std::fprintf(stderr, "orlop %s: %s\n", name, error.message.c_str());
  return exit_code_of(error.code);
}

ExitCode report_failed_run(const char* name, const Error& error) {
  if (interrupted()) return ExitCode::kInterrupted;
  const ExitCode code = report_error(name, error);
  return code == ExitCode::kUsage || code == ExitCode::kRefused ? code : ExitCode::kBad;
}

}  // namespace orlop::cli
