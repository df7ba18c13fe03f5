// SPDX-License-Identifier: Apache-2.0
// An engine that dies with copies under way while a child it forked holds the GPU driver's files.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "worker.h"

namespace orlop::gpu_test {
namespace {

using Json = nlohmann::ordered_json;

// Keys of one put: a plan of a long request.
constexpr std::uint32_t kKeysOfPlan = 4096;

// Numbers of open descriptors by what they are.
struct Descriptors {
  std::vector<int> device_files;  // of the GPU driver
  std::vector<int> pipe_ends;     // writable, not 0, 1, 2: the fork pipe among them
};
Descriptors open_descriptors() {
  Descriptors out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    const int number = std::stoi(entry.path().filename().string());
    if (error || number <= 2) continue;
    if (target.starts_with("/dev/nvidia")) out.device_files.push_back(number);
    const int flags = ::fcntl(number, F_GETFL);
    if (target.starts_with("pipe:") && flags >= 0 && (flags & O_ACCMODE) == O_WRONLY)
      out.pipe_ends.push_back(number);
  }
  std::ranges::sort(out.device_files);
  std::ranges::sort(out.pipe_ends);
  return out;
}

// A process's files are closed in the order of their numbers, or the other way round: where an
// engine loads CUDA before liborlop, its pipes have the higher numbers. So in this child.
void move_pipes_last(const Descriptors& open) {
  for (const int pipe : open.pipe_ends) {
    (void)::fcntl(pipe, F_DUPFD, 900);  // inherited flags: kept, as is the file
    ::close(pipe);
  }
}

[[noreturn]] void live_as_child(const Descriptors& open, bool pipes_last) {
  ::close(1);
  if (pipes_last) move_pipes_last(open);
  char byte = 0;
  while (::read(0, &byte, 1) < 0) {  // until the test ends, however it ends
  }
  ::_exit(0);
}

int fail_with(Json line, const std::string& what, const Error& error) {
  line["ok"] = false;
  line["error"] = what + ": " + error.message;
  std::printf("%s\n", line.dump().c_str());
  return 1;
}

struct DoomedPut {
  std::vector<PutPlan> plans;
  std::uint32_t prepared = 0;
};

Result<DoomedPut> reserve(Client& client, const Namespace& ns,
                          const std::vector<std::string>& keys) {
  DoomedPut out;
  const std::vector<Key> views(keys.begin(), keys.end());
  for (std::size_t at = 0; at < views.size(); at += kKeysOfPlan) {
    const std::size_t count = std::min<std::size_t>(kKeysOfPlan, views.size() - at);
    auto plan = client.put_start(ns, std::span(views).subspan(at, count));
    if (!plan) return std::unexpected(plan.error());
    out.prepared += static_cast<std::uint32_t>(plan->prepared());
    out.plans.push_back(std::move(*plan));
  }
  return out;
}

}  // namespace

int run_doomed(const WorkerOptions& options) {
  Json line = {{"step", "doomed"}, {"engine", options.engine}, {"values", options.values}};
  const Model model = model_of(options);
  // Every value is made of the same page: what matters is that bytes arrive. They are of this set
  // alone: the memory may still hold what the engine killed before has written there.
  PagedCache paged(model, *arrangement(options.arrangement), 1);
  auto memory = make_cache_memory(memory_kind(options), paged.bytes());
  if (!memory) return fail_with(line, "memory", memory.error());
  const std::vector<std::byte> image = value_of(options.set, paged.bytes());
  if (auto written = (*memory)->write(image); !written)
    return fail_with(line, "fill", written.error());
  auto client = open_client(options);
  if (!client) return fail_with(line, "attach", client.error());
  auto ns = client->open_namespace(model.descriptor());
  if (!ns) return fail_with(line, "open_namespace", ns.error());
  auto cache = PageCache::open(*client, paged.layout((*memory)->address()), ns->value_len(),
                               {.engine = *engine_choice(options.engine)});
  if (!cache) return fail_with(line, "open", cache.error());
  auto put = reserve(*client, *ns, key_texts(options.set, options.values));
  if (!put) return fail_with(line, "put_start", put.error());

  const Descriptors open = open_descriptors();
  const pid_t child = ::fork();
  if (child == 0) live_as_child(open, options.pipes_last);

  void* stream = nullptr;
  if (options.busy_seconds > 0) {
    auto busy = (*memory)->busy_stream(options.busy_seconds);
    if (!busy) return fail_with(line, "busy stream", busy.error());
    stream = *busy;
  }
  std::vector<std::vector<std::int64_t>> pages;
  std::vector<BackupItem> items;
  for (PutPlan& plan : put->plans) {
    pages.emplace_back();
    for (std::size_t i = 0; i < plan.size(); ++i) {
      for (std::uint32_t page = 0; page < paged.pages_per_value(); ++page)
        pages.back().push_back(page);
    }
  }
  for (std::size_t i = 0; i < put->plans.size(); ++i) items.push_back({&put->plans[i], {pages[i]}});
  line["ok"] = child > 0;
  line["prepared"] = put->prepared;
  line["value_bytes"] = model.value_len();
  line["child"] = child;
  line["device_files"] = open.device_files;
  line["pipe_ends"] = open.pipe_ends;
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
  const auto backup = cache->backup(items, {.stream = stream});
  if (!backup) return 3;
  ::kill(::getpid(), SIGKILL);
  return 4;
}

}  // namespace orlop::gpu_test
