// SPDX-License-Identifier: Apache-2.0
// orlop replay FILE: a request trace (Mooncake JSONL) against a real node.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/json_parts.h"
#include "cli/page_bytes.h"
#include "cli/replay_run.h"
#include "cli/report.h"
#include "eviction/policy.h"
#include "segment/geometry.h"

namespace orlop::cli {
namespace {

struct Arguments {
  ReplayOptions options;
  std::string value_bytes = "4096";
  std::size_t limit = 0;  // 0: all
  bool json = false;
};

nlohmann::ordered_json to_json(const ReplayOptions& options, const ReplayFindings& found) {
  const TallyBody& tally = found.tally;
  return {{"file", options.path},
          {"policy", options.policy},
          {"workers", options.workers},
          {"capacity_pages", options.capacity_pages},
          {"value_bytes", options.value_bytes},
          {"requests", tally.requests},
          {"pages", tally.pages},
          {"hit_pages", tally.hit_pages},
          {"hit_rate", ratio(tally.hit_pages, tally.pages)},
          {"verified_bytes", tally.verified_bytes},
          {"mismatches", tally.mismatches()},
          {"stored_pages", tally.stored_pages},
          {"cross_worker_pages", tally.cross_worker_pages},
          {"evicted", found.evicted_pages},
          {"touches_lost", found.touches_lost},
          {"outcomes", outcomes_json(tally)},
          {"plan_us", latency_json(tally.plan_ns)},
          {"get_us", latency_json(tally.get_ns)},
          {"put_us", latency_json(tally.put_ns)},
          {"seconds", static_cast<double>(found.replay_ns) / 1e9},
          {"complaints", found.complaints},
          {"ok", found.complaints.empty()}};
}

std::string table_of(const ReplayOptions& options, const ReplayFindings& found,
                     const Painter& paint) {
  const TallyBody& tally = found.tally;
  const auto times = [](const Histogram& histogram) {
    return format_duration_ns(histogram.percentile(50)) + " / " +
           format_duration_ns(histogram.percentile(95)) + " / " +
           format_duration_ns(histogram.percentile(99));
  };
  Table table("lrl");
  table.row({"requests", format_count(tally.requests), "in " + format_duration_ns(found.replay_ns)})
      .row({"hit rate", paint(Ink::kBold, percent(tally.hit_pages, tally.pages)),
            format_count(tally.hit_pages) + " of " + format_count(tally.pages) + " pages, " +
                options.policy + ", " + format_count(options.capacity_pages) + " pages resident"})
      .row({"verified", format_bytes(tally.verified_bytes), "read and compared byte for byte"})
      .row({"stored", format_count(tally.stored_pages), "pages"})
      .row({"evicted", format_count(found.evicted_pages), "pages"})
      .row({"plan", times(tally.plan_ns), "p50 / p95 / p99: find and pin a prefix"})
      .row({"get", times(tally.get_ns), "the same, copied and checked"})
      .row({"put", times(tally.put_ns), "reserve, copy, commit, answer"})
      .row({"wrong pages", paint(tally.mismatches() == 0 ? Ink::kGood : Ink::kBad,
                                 format_count(tally.mismatches()))});
  return table.text();
}

ExitCode run(const Arguments& arguments) {
  catch_interrupts();
  Progress progress(STDERR_FILENO, "requests", arguments.json && !is_terminal(STDERR_FILENO));
  const auto found = run_replay(arguments.options, progress);
  progress.finish();
  if (!found) return report_failed_run("replay", found.error());
  const Painter paint(wants_colour(STDOUT_FILENO));
  if (arguments.json) {
    print_json(to_json(arguments.options, *found));
  } else {
    std::printf("\n%s\n", table_of(arguments.options, *found, paint).c_str());
    for (const std::string& complaint : found->complaints) {
      std::printf("%s\n", paint(Ink::kBad, complaint).c_str());
    }
  }
  return found->complaints.empty() ? ExitCode::kOk : ExitCode::kBad;
}

void take_texts(Arguments& arguments) {
  const auto bytes = parse_bytes(arguments.value_bytes);
  if (!bytes) throw CLI::ValidationError("--value-bytes", bytes.error().message);
  if (*bytes < kMinPageBytes || *bytes > segment::kMaxSlabBytes) {
    throw CLI::ValidationError("--value-bytes", "from " + std::to_string(kMinPageBytes) + " to " +
                                                    format_bytes(segment::kMaxSlabBytes));
  }
  arguments.options.value_bytes = static_cast<std::uint32_t>(*bytes);
  if (arguments.limit > 0) arguments.options.limit = arguments.limit;
}

}  // namespace

void register_replay(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<Arguments>();
  ReplayOptions& options = arguments->options;
  CLI::App* command =
      app.add_subcommand("replay", "Run a request trace (Mooncake JSONL) through a real node");
  command->add_option("FILE", options.path, "one JSON object a line, hash_ids = pages")->required();
  command->add_option("--workers", options.workers, "processes that share the trace round robin")
      ->check(CLI::Range(1u, kReplayMaxWorkers))
      ->capture_default_str();
  command
      ->add_option("--capacity-pages", options.capacity_pages,
                   "pages that stay resident; free slots come on top")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--value-bytes", arguments->value_bytes, "length of a page")
      ->capture_default_str();
  std::vector<std::string> policies;
  for (const std::string_view name : policy_names()) policies.emplace_back(name);
  command->add_option("--policy", options.policy, "which pages leave first")
      ->check(CLI::IsMember(policies))
      ->capture_default_str();
  command->add_option("--limit", arguments->limit, "only the first so many requests (0: all)")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "one JSON object instead of the table");
  command->callback([arguments, &chosen] {
    take_texts(*arguments);
    chosen = [arguments] { return run(*arguments); };
  });
}

}  // namespace orlop::cli
