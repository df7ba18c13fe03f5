// SPDX-License-Identifier: Apache-2.0
// Runs the preflight of a new program beside the server that serves (protocol/attach/preflight.h).
// Watch process_fd() (readable: it has ended), then take().
// Thread: none; one owner. Whoever starts one ends it with take() or destroys it, which kills.
#pragma once

#include <string>
#include <vector>

#include "node/program_file.h"
#include "orlop/error.h"
#include "platform/process.h"
#include "protocol/attach/preflight.h"

namespace orlop::node {

class ProgramCheck {
 public:
  // arguments: argv. keep: descriptors that it gets apart from its answer's. Its standard error is
  // ours, so that it says itself what it does not like.
  // Errors: kSystem (not to be executed), kInvalidArgument.
  static Result<ProgramCheck> begin(const ProgramFile& program,
                                    const std::vector<std::string>& arguments,
                                    std::vector<KeptDescriptor> keep);
  ProgramCheck() = default;
  ProgramCheck(ProgramCheck&&) noexcept = default;
  ProgramCheck& operator=(ProgramCheck&&) = delete;
  ~ProgramCheck();

  int process_fd() const { return child_.pidfd.fd(); }
  // After its end, once. Errors: kInvalidArgument (it failed, or answered something else).
  Result<protocol::Preflight> take();

 private:
  Child child_;
  FileDescriptor output_;
};

}  // namespace orlop::node
