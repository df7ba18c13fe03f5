// SPDX-License-Identifier: Apache-2.0
#include "cli/worker_process.h"

#include <signal.h>

#include <cstdio>
#include <utility>

#include "cli/exit_code.h"
#include "cli/workload.h"
#include "platform/clock.h"

namespace orlop::cli {
namespace {

NamespaceDescriptor workload_namespace(std::uint32_t value_len) {
  NamespaceDescriptor descriptor;
  descriptor.engine = "orlop-demo";
  descriptor.layout = "orlop-demo-1";
  descriptor.model = "none";
  descriptor.revision = "1";
  descriptor.dtype = "bytes";
  descriptor.page_tokens = kPageTokens;
  descriptor.value_len = value_len;
  return descriptor;
}

}  // namespace

Result<AttachedWorker> attach_worker(const std::string& socket, const std::string& name,
                                     std::uint32_t value_len, Milliseconds put_limit,
                                     MonoNs deadline) {
  ClientOptions options;
  options.socket = socket;
  options.name = name;
  options.call_budget = put_limit;
  Client client(options);
  const MonoNs left = time_left(deadline, monotonic_ns());
  if (!client.wait_ready(Milliseconds(left / kNsPerMs))) {
    return std::unexpected(client.last_attach_error());
  }
  auto ns = client.open_namespace(workload_namespace(value_len));
  if (!ns) return std::unexpected(ns.error());
  return AttachedWorker{std::move(client), std::move(*ns)};
}

int run_worker(const std::function<Result<void>(WorkerLink&)>& body) {
  // Ctrl-C is the parent's business: it ends us, in order.
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  WorkerLink link{FileDescriptor(kWorkerLinkNumber)};
  const auto done = body(link);
  if (done) return to_int(ExitCode::kOk);
  const std::string text =
      done.error().message + " (" + std::string(to_string(done.error().code)) + ")";
  if (!link.send_text(Word::kFailed, text, monotonic_ns() + kNsPerSecond)) {
    std::fprintf(stderr, "orlop worker: %s\n", text.c_str());
  }
  return to_int(exit_code_of(done.error().code));
}

Result<void> await_word(WorkerLink& link, Word word) {
  const MonoNs deadline = monotonic_ns() + kWordLimit;
  for (;;) {
    const auto message = link.receive(deadline);
    if (!message) return std::unexpected(message.error());
    if (*message && (*message)->word == word) return {};
    if (*message) return fail(ErrorCode::kCorrupt, "the parent said something unexpected");
    if (monotonic_ns() >= deadline) return fail(ErrorCode::kDeadline, "the parent says nothing");
  }
}

}  // namespace orlop::cli
