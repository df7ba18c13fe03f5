// SPDX-License-Identifier: Apache-2.0
// orlop demo: shows on this machine what Orlop does.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "cli/command.h"
#include "cli/demo_run.h"
#include "cli/interrupt.h"
#include "cli/json_parts.h"
#include "cli/report.h"

namespace orlop::cli {
namespace {

struct Arguments {
  DemoOptions options;
  std::string capacity = "256MiB";
  bool json = false;
};

// Pages per second would flatter; what was restored and how fast one restore is, is the point.
nlohmann::ordered_json to_json(const DemoOptions& options, const DemoFindings& found) {
  const TallyBody& tally = found.tally;
  return {{"requests", tally.requests},
          {"workers", options.workers},
          {"seed", options.seed},
          {"capacity_bytes", options.capacity},
          {"value_bytes", kDemoValueLen},
          {"pages", tally.pages},
          {"hit_pages", tally.hit_pages},
          {"hit_rate", ratio(tally.hit_pages, tally.pages)},
          {"verified_bytes", tally.verified_bytes},
          {"stored_pages", tally.stored_pages},
          {"evicted_pages", found.evicted_pages},
          {"cross_worker_pages", tally.cross_worker_pages},
          {"plan_us", latency_json(tally.plan_ns)},
          {"get_us", latency_json(tally.get_ns)},
          {"put_us", latency_json(tally.put_ns)},
          {"outcomes", outcomes_json(tally)},
          {"restart_ms", static_cast<double>(found.restart_ns) / 1e6},
          {"longest_gap_ms", static_cast<double>(found.longest_gap_ns) / 1e6},
          {"outage_hit_pages", found.outage_hits},
          {"committed_before_kill", found.recorded},
          {"evicted_before_kill", found.evicted_before},
          {"read_back", found.read_back},
          {"evicted_after_kill", found.evicted_after},
          {"lost", found.lost},
          {"mismatches", tally.mismatches()},
          {"wrong_bytes", found.wrong_bytes()},
          {"seconds", static_cast<double>(found.total_ns) / 1e9},
          {"complaints", found.complaints},
          {"ok", found.complaints.empty()}};
}

std::string table_of(const DemoFindings& found, const Painter& paint) {
  const TallyBody& tally = found.tally;
  const auto times = [](const Histogram& histogram) {
    return format_duration_ns(histogram.percentile(50)) + " / " +
           format_duration_ns(histogram.percentile(95)) + " / " +
           format_duration_ns(histogram.percentile(99));
  };
  const auto zero = [&paint](std::uint64_t count) {
    return paint(count == 0 ? Ink::kGood : Ink::kBad, format_count(count));
  };
  Table table("lrl");
  table.row({"requests", format_count(tally.requests)})
      .row({"hit rate", paint(Ink::kBold, percent(tally.hit_pages, tally.pages)),
            "of " + format_count(tally.pages) + " prompt pages"})
      .row({"restored", format_count(tally.hit_pages),
            "pages; " + format_bytes(tally.verified_bytes) + " read and compared byte for byte"})
      .row({"cross-worker hits", format_count(tally.cross_worker_pages),
            "pages that the other worker had stored"})
      .row({"stored", format_count(tally.stored_pages), "pages"})
      .row({"evicted", format_count(found.evicted_pages), "pages"})
      .row({"plan", times(tally.plan_ns), "p50 / p95 / p99: find and pin a prefix"})
      .row({"get", times(tally.get_ns), "the same, copied and checked"})
      .row({"put", times(tally.put_ns), "reserve, copy, commit, answer"})
      .row({"server killed, restart", format_duration_ns(found.restart_ns),
            "SIGKILL to the first new page stored"})
      .row({"longest gap in hits", format_duration_ns(found.longest_gap_ns),
            format_count(found.outage_hits) + " pages were hit meanwhile"})
      .row({"committed before", format_count(found.recorded),
            "pages; " + format_count(found.evicted_before) + " of them evicted before the kill"})
      .row({"read back after", format_count(found.read_back),
            "pages; " + format_count(found.evicted_after) + " evicted since"})
      .row({"lost pages", zero(found.lost)})
      .row({"wrong bytes", zero(found.wrong_bytes())});
  return table.text();
}

std::string closing_line(const DemoOptions& options, const DemoFindings& found) {
  if (!found.complaints.empty()) {
    std::string text = "NOT as it should be: ";
    for (const std::string& complaint : found.complaints) {
      text += (&complaint == &found.complaints.front() ? "" : "; ") + complaint;
    }
    return text + ".";
  }
  return std::to_string(options.workers) + (options.workers == 1 ? " process" : " processes") +
         " shared one cache; its server was killed in the middle, all " +
         format_count(found.read_back) +
         " of their pages that were still cached came back bit for bit, and local hits went on.";
}

ExitCode run(const Arguments& arguments) {
  catch_interrupts();
  Progress progress(STDERR_FILENO, "requests", arguments.json && !is_terminal(STDERR_FILENO));
  auto found = run_demo(arguments.options, progress);
  progress.finish();
  if (!found) return report_failed_run("demo", found.error());
  const bool good = found->complaints.empty();
  if (arguments.json) {
    print_json(to_json(arguments.options, *found));
  } else {
    const Painter paint(wants_colour(STDOUT_FILENO));
    std::printf(
        "\n%s\n%s\n", table_of(*found, paint).c_str(),
        paint(good ? Ink::kGood : Ink::kBad, closing_line(arguments.options, *found)).c_str());
  }
  if (!found->kept_folder.empty()) {
    std::fprintf(stderr, "the node's log and last status: %s\n", found->kept_folder.c_str());
  }
  return good ? ExitCode::kOk : ExitCode::kBad;
}

}  // namespace

void register_demo(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<Arguments>();
  DemoOptions& options = arguments->options;
  CLI::App* command = app.add_subcommand(
      "demo", "The cache at work: a node, worker processes, conversations, a killed server");
  command->add_option("--requests", options.requests, "requests of all users together")
      ->check(CLI::Range(std::uint64_t{2}, kDemoMaxRequests))
      ->capture_default_str();
  command->add_option("--workers", options.workers, "worker processes")
      ->check(CLI::Range(1u, kDemoMaxWorkers))
      ->capture_default_str();
  command->add_option("--capacity", arguments->capacity, "memory of the node, at least 64MiB")
      ->capture_default_str();
  command->add_option("--seed", options.seed, "of the workload")->capture_default_str();
  command->add_flag("--json", arguments->json, "one JSON object instead of the table");
  command->add_flag("--keep", options.keep, "leave the node's log and last status behind");
  command->callback([arguments, &chosen] {
    const auto capacity = parse_bytes(arguments->capacity);
    if (!capacity) throw CLI::ValidationError("--capacity", capacity.error().message);
    if (*capacity < kDemoMinCapacity) {
      throw CLI::ValidationError("--capacity", "at least " + format_bytes(kDemoMinCapacity));
    }
    arguments->options.capacity = *capacity;
    chosen = [arguments] { return run(*arguments); };
  });
}

}  // namespace orlop::cli
