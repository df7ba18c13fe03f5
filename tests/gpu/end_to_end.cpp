// SPDX-License-Identifier: Apache-2.0
// gpu_end_to_end: a real node, engines with paged caches in GPU memory (--memory gpu) or in their
// own (--memory host), and what must hold between them:
//   backup    process A of each engine kind fills a cache, backs it up and exits
//   killed    the node's server is killed; its keeper starts another on the same memory
//   restore   process B of each engine kind restores what A of another kind wrote, into other pages
//             of its own cache and in every layout, and compares every byte of that cache
//   flipped   one bit of value memory is turned over: B reports that page and all after it as
//   misses doomed    see doom_step.h
// One JSON object a step on standard output; exit status 0 if all are ok. It is started again as
// its own engine processes (--worker).
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "base/bytes.h"
#include "daemon.h"
#include "doom_step.h"
#include "engine_process.h"
#include "platform/clock.h"
#include "value_watch.h"
#include "worker.h"

namespace orlop::gpu_test {
namespace {

using Json = nlohmann::ordered_json;
using process_test::Daemon;

struct Options {
  WorkerOptions worker;
  std::string engines;  // comma between; empty: all that the memory allows
  std::string orlopd;
  std::uint64_t capacity_mib = 0, doom_mib = 0;
  double watch_seconds = 0;
  bool gpu() const { return worker.memory == "gpu"; }
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

// The daemon beside this program, if there is one: the two are carried together.
std::string orlopd_path(const Options& options) {
  if (!options.orlopd.empty()) return options.orlopd;
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto beside = self.parent_path() / "orlopd";
  return std::filesystem::exists(beside, error) ? beside.string() : ORLOPD_PATH;
}

class EndToEnd {
 public:
  explicit EndToEnd(const Options& options)
      : options_(options),
        engines_(split(options.engines)),
        daemon_(
            folder_.path(),
            {"--capacity", std::to_string(options.capacity_mib) + "MiB", "--max-value-len", "4MiB",
             "--max-prepared", std::to_string(options.capacity_mib) + "MiB", "--touch", "on"},
            {.program = orlopd_path(options)}) {}

  bool run() {
    if (!daemon_.wait_serving()) {
      std::fputs(daemon_.log().c_str(), stderr);
      return say({{"step", "node"}, {"ok", false}, {"error", "the node does not serve"}});
    }
    auto values = ValueWatch::open(daemon_.keeper_pid());
    if (!values) return say({{"step", "node"}, {"ok", false}, {"error", values.error().message}});
    values_.emplace(std::move(*values));
    say({{"step", "node"}, {"ok", true}, {"value_bytes", values_->bytes()}});
    for (const std::string& engine : engines_) {
      say(run_engine(worker("backup", engine, "nhd", "mha-" + engine)));
      say(run_engine(worker("backup", engine, "mla", "mla-" + engine)));
    }
    kill_server();
    restore_all();
    flip();
    doom_all();
    return ok_;
  }

 private:
  bool say(Json line) {
    ok_ = ok_ && line.value("ok", false);
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
    return line.value("ok", false);
  }

  WorkerOptions worker(const std::string& role, const std::string& engine,
                       const std::string& layout, const std::string& set) const {
    WorkerOptions out = options_.worker;
    out.role = role;
    out.socket = daemon_.socket();
    out.engine = engine;
    out.arrangement = layout;
    out.set = set;
    return out;
  }

  void kill_server() {
    const MonoNs begin = monotonic_ns();
    daemon_.kill_server();
    const bool back = daemon_.wait_serving(1);
    say({{"step", "server killed"},
         {"ms_until_served", static_cast<double>(monotonic_ns() - begin) / 1e6},
         {"ok", back}});
  }

  // Each engine reads every layout; what was written by which engine goes round.
  void restore_all() {
    for (std::size_t i = 0; i < engines_.size(); ++i) {
      for (std::size_t j = 0; j < kArrangements.size(); ++j) {
        const bool mla = kArrangements[j] == Arrangement::kMla;
        const std::string& writer = engines_[(i + j) % engines_.size()];
        say(run_engine(worker("restore", engines_[i], std::string(to_string(kArrangements[j])),
                              (mla ? "mla-" : "mha-") + writer)));
      }
    }
  }

  // For each engine another page, as a flipped one is a miss for good.
  void flip() {
    std::uint32_t page = options_.worker.values - 2;
    for (const std::string& engine : engines_) {
      WorkerOptions reader = worker("restore", engine, "hnd", "mha-" + engines_.front());
      const auto key = key_texts(reader.set, page + 1).back();
      const std::vector<std::byte> value = value_of(key, model_of(reader).value_len());
      std::byte* const slot = values_->find(std::span(value).first(256));
      if (slot == nullptr) {
        say({{"step", "flipped"}, {"ok", false}, {"error", "no slot holds " + key}});
        return;
      }
      slot[value.size() / 2 + page] ^= std::byte{0x10};
      reader.values = page + 1;
      if (page + 1 < options_.worker.values && engine == engines_.front()) ++reader.values;
      reader.expected = page;
      Json line = run_engine(reader);
      line["step"] = "flipped";
      line["page"] = page;
      say(std::move(line));
      page -= 2;
    }
  }

  void doom_all() {
    for (std::size_t i = 0; i < engines_.size(); ++i) {
      DoomPlan plan{.engine = worker("doomed", engines_[i], "nhd", "doom-" + engines_[i]),
                    .hold_seconds = options_.gpu() ? 3.0 : 0.5,
                    .press = true,
                    .watch_seconds = options_.watch_seconds};
      plan.engine.values =
          static_cast<std::uint32_t>(options_.doom_mib * kMiB / model_of(plan.engine).value_len());
      const bool device = memory_kind(plan.engine) == MemoryKind::kDevice;
      if (device) plan.engine.busy_seconds = 1;
      say(doom(daemon_, *values_, plan));
      if (!device) continue;
      // The child dies while the copies run, its pipe's files before and behind the driver's.
      plan.kill_at_first_change = true;
      plan.press = false;
      for (const bool last : {false, true}) {
        plan.engine.pipes_last = last;
        plan.engine.set += last ? "-last" : "-first";
        say(doom(daemon_, *values_, plan));
      }
    }
  }

  const Options options_;
  const std::vector<std::string> engines_;
  process_test::TemporaryFolder folder_;
  Daemon daemon_;
  std::optional<ValueWatch> values_;
  bool ok_ = true;
};

int run(Options options) {
  if (!options.worker.role.empty()) {
    options.worker.engine = options.engines;
    return run_worker(options.worker);
  }
  const bool gpu = options.gpu();
  if (options.engines.empty())
    options.engines = gpu ? "auto,staged,direct,pieces,host" : "host,auto";
  if (options.capacity_mib == 0) options.capacity_mib = gpu ? 12'288 : 192;
  if (options.doom_mib == 0) options.doom_mib = gpu ? 8'192 : 128;
  if (options.watch_seconds == 0) options.watch_seconds = gpu ? 3 : 0.5;
  const std::size_t engines = split(options.engines).size();
  options.worker.values = std::max<std::uint32_t>(
      options.worker.values, static_cast<std::uint32_t>(2 * engines + 2));  // flip() takes two each
  EndToEnd program(options);
  const bool ok = program.run();
  std::printf("{\"step\":\"end\",\"ok\":%s}\n", ok ? "true" : "false");
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace orlop::gpu_test

int main(int argc, char** argv) {
  using namespace orlop::gpu_test;
  CLI::App app("Copies between paged caches and a real node, end to end");
  Options options;
  WorkerOptions& worker = options.worker;
  app.add_option("--memory", worker.memory, "where the caches are")
      ->check(CLI::IsMember({"host", "gpu"}));
  app.add_option("--engine", options.engines, "comma between: host,auto,staged,direct,pieces")
      ->check([](const std::string& text) {
        for (const std::string& name : split(text))
          if (!engine_choice(name)) return "there is no engine " + name;
        return std::string();
      });
  app.add_option("--size", worker.size, "values of 64 KiB, of some MiB")
      ->check(CLI::IsMember({"small", "large"}));
  app.add_option("--values", worker.values, "of a backup");
  app.add_option("--orlopd", options.orlopd, "default: the one beside this program");
  app.add_option("--capacity-mib", options.capacity_mib, "of the node");
  app.add_option("--doom-mib", options.doom_mib, "backups queued when an engine is killed");
  app.add_option("--watch-seconds", options.watch_seconds, "after slots were given back");
  app.add_option("--worker", worker.role)->group("");
  app.add_option("--socket", worker.socket)->group("");
  app.add_option("--layout", worker.arrangement)->group("");
  app.add_option("--set", worker.set)->group("");
  app.add_option("--expected", worker.expected)->group("");
  app.add_option("--busy", worker.busy_seconds)->group("");
  app.add_option("--pipes-last", worker.pipes_last)->group("");
  CLI11_PARSE(app, argc, argv);
  if (!arrangement(worker.arrangement)) {
    std::fprintf(stderr, "gpu_end_to_end: there is no layout %s\n", worker.arrangement.c_str());
    return 2;
  }
  return run(std::move(options));
}
