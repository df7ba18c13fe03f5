// SPDX-License-Identifier: Apache-2.0
#include "engine_process.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "platform/clock.h"

namespace orlop::gpu_test {
namespace {

using Json = nlohmann::ordered_json;

constexpr MonoNs kLongestRun = 180 * kNsPerSecond;

}  // namespace

Result<EngineProcess> EngineProcess::start(const WorkerOptions& options) {
  auto input = make_pipe();
  if (!input) return std::unexpected(input.error());
  auto output = make_pipe();
  if (!output) return std::unexpected(output.error());
  SpawnRequest request;
  request.path = std::filesystem::read_symlink("/proc/self/exe").string();
  request.arguments = {request.path};
  const auto more = worker_arguments(options);
  request.arguments.insert(request.arguments.end(), more.begin(), more.end());
  request.keep = {{input->read_end.get(), 0}, {output->write_end.get(), 1}};
  request.parent_death_signal = SIGKILL;
  auto child = spawn(request);
  if (!child) return std::unexpected(child.error());
  EngineProcess out;
  out.child_ = std::move(*child);
  out.to_ = std::move(input->write_end);
  out.from_ = std::move(output->read_end);
  return out;
}

EngineProcess::~EngineProcess() {
  if (!child_.pidfd || reaped_) return;
  (void)child_.pidfd.send_signal(SIGKILL);
  (void)wait(monotonic_ns() + kLongestRun);
}

std::optional<Json> EngineProcess::next_line(MonoNs deadline) {
  for (;;) {
    if (const std::size_t end = read_.find('\n'); end != std::string::npos) {
      const std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      Json parsed = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!parsed.is_object()) return std::nullopt;
      return parsed;
    }
    const MonoNs now = monotonic_ns();
    if (now >= deadline) return std::nullopt;
    pollfd readable{from_.get(), POLLIN, 0};
    if (::poll(&readable, 1, static_cast<int>((deadline - now) / kNsPerMs) + 1) <= 0) continue;
    char buffer[4096];
    const ssize_t count = ::read(from_.get(), buffer, sizeof buffer);
    if (count <= 0) return std::nullopt;
    read_.append(buffer, static_cast<std::size_t>(count));
  }
}

Result<ExitStatus> EngineProcess::wait(MonoNs deadline) {
  auto ended = reap_child(child_.pidfd, deadline);
  if (!ended) return std::unexpected(ended.error());
  if (!*ended) return fail(ErrorCode::kDeadline, "the engine process does not end");
  reaped_ = true;
  return **ended;
}

Json run_engine(const WorkerOptions& options) {
  const Json unsaid = {{"step", options.role}, {"engine", options.engine}, {"ok", false}};
  auto engine = EngineProcess::start(options);
  if (!engine) {
    Json line = unsaid;
    line["error"] = engine.error().message;
    return line;
  }
  const MonoNs deadline = monotonic_ns() + kLongestRun;
  Json line = engine->next_line(deadline).value_or(unsaid);
  const auto status = engine->wait(deadline);
  line["pid"] = engine->pid();
  const bool well = status && !status->by_signal && status->value == 0;
  if (!well) {
    line["ok"] = false;
    line["ended"] = status ? to_string(*status) : status.error().message;
  }
  return line;
}

}  // namespace orlop::gpu_test
