// SPDX-License-Identifier: Apache-2.0
#include "node/program_check.h"

#include <signal.h>
#include <unistd.h>

#include <utility>

#include "platform/clock.h"

namespace orlop::node {
namespace {

// It is dead or was sent SIGKILL; an uninterruptible call takes its time.
constexpr MonoNs kReapLimit = 5 * kNsPerSecond;

}  // namespace

Result<ProgramCheck> ProgramCheck::begin(const ProgramFile& program,
                                         const std::vector<std::string>& arguments,
                                         std::vector<KeptDescriptor> keep) {
  auto pipe = make_pipe();
  if (!pipe) return std::unexpected<Error>(pipe.error());
  // An answer fits into a pipe (64 KiB), so nobody has to read before it has ended.
  keep.push_back({pipe->write_end.get(), 1});
  auto child = spawn({program.exec_path(), arguments, std::nullopt, std::move(keep), SIGKILL});
  if (!child) return std::unexpected<Error>(child.error());
  ProgramCheck check;
  check.child_ = std::move(*child);
  check.output_ = std::move(pipe->read_end);
  return check;
}

ProgramCheck::~ProgramCheck() {
  if (!child_.pidfd) return;
  (void)child_.pidfd.send_signal(SIGKILL);
  (void)reap_child(child_.pidfd, monotonic_ns() + kReapLimit);
}

Result<protocol::Preflight> ProgramCheck::take() {
  const auto ended = reap_child(std::exchange(child_, {}).pidfd, monotonic_ns() + kReapLimit);
  if (!ended) return std::unexpected<Error>(ended.error());
  if (!*ended || (*ended)->by_signal || (*ended)->value != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "its preflight ended with " +
                    (*ended ? to_string(**ended) : std::string("no status")) +
                    " (what it said is above)");
  }
  std::string text(protocol::kMaxPreflightBytes + 1, 0);
  const ssize_t got = ::read(output_.get(), text.data(), text.size());
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return protocol::parse_preflight(text);
}

}  // namespace orlop::node
