// SPDX-License-Identifier: Apache-2.0
// orlop doctor vllm: becomes the doctor of the Python package, in the engine's own Python.
#pragma once

#include <string>

#include "cli/exit_code.h"

namespace orlop::cli {

struct VllmDoctor {
  std::string python;   // empty: $ORLOP_PYTHON, else python3 of $PATH
  std::string socket;   // empty: the doctor finds it as we do
  std::string metrics;  // address of a vllm serve; may be empty
  bool json = false;
};

// Returns only when this Python cannot be started: kFailed, said on stderr. A Python without the
// package ends with kFailed too and says so; else the exit status is the doctor's, of the same
// table. Thread: main's.
[[nodiscard]] ExitCode become_vllm_doctor(const VllmDoctor& what);

}  // namespace orlop::cli
