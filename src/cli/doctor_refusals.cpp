// SPDX-License-Identifier: Apache-2.0
// Puts and reads that were refused or cut short, wrong bytes, plans that stay open.
#include <algorithm>

#include "base/units.h"
#include "cli/doctor_traffic.h"
#include "cli/report.h"
#include "cli/status_fields.h"

namespace orlop::cli {
namespace {

using namespace status_fields;

std::string keys_text(std::uint64_t keys) {
  return format_count(keys) + (keys == 1 ? " key" : " keys");
}
std::string plans_text(std::uint64_t plans) {
  return format_count(plans) + (plans == 1 ? " plan" : " plans");
}

std::uint64_t sum_over(const Json& list, const char* field) {
  std::uint64_t sum = 0;
  for (const Json& one : list) sum += number(one, field);
  return sum;
}

void draining(const Json& status, std::vector<Check>& out) {
  if (!is_draining(status)) return;
  out.push_back({.name = "draining",
                 .verdict = Verdict::kWarning,
                 .finding = "the node drains: it takes no new puts, reads go on",
                 .remedy = "`orlop drain --undo` lets puts in again"});
}

void refused_puts(const Json& status, std::vector<Check>& out) {
  const Json& outcomes = at(at(status, "counters"), "outcomes");
  const auto add = [&](const char* outcome, const std::string& meaning, const char* remedy) {
    const std::uint64_t keys = number(outcomes, outcome);
    if (keys == 0) return;
    out.push_back({.name = outcome,
                   .verdict = Verdict::kWarning,
                   .finding = keys_text(keys) + " not stored (" + outcome + "): " + meaning,
                   .remedy = remedy,
                   .figures = {{"keys", keys}}});
  };
  const Json& memory = at(status, "memory");
  const std::uint64_t pinned = sum_over(array_at(status, "clients"), "pinned_bytes");
  add("no_space",
      "nothing could leave in time; of " + bytes(memory, "value_bytes") + " now " +
          format_bytes(pinned) + " pinned by read plans and " + bytes(memory, "prepared_bytes") +
          " reserved by open puts",
      "`orlop top` shows which client pins or prepares most; lower client.max_pinned or raise "
      "--capacity");
  add("over_quota", "their client had reserved its share (client.max_prepared) already",
      "put smaller batches and commit them sooner, or raise --max-prepared");
  add("not_admitted", "the node did not admit them",
      "a draining node admits nothing (`orlop status`); else the eviction policy keeps them out");
}

void short_reads(const Json& status, std::vector<Check>& out) {
  const Json& misses = at(at(status, "traffic"), "misses");
  const auto add = [&](const char* reason, const std::string& meaning, const char* remedy) {
    const std::uint64_t plans = number(misses, reason);
    if (plans == 0) return;
    out.push_back({.name = reason,
                   .verdict = Verdict::kWarning,
                   .finding = plans_text(plans) + " cut short (" + reason + "): " + meaning,
                   .remedy = remedy,
                   .figures = {{"plans", plans}}});
  };
  add("ledger_full", "the client's pin ledger had no free cell",
      "release read plans sooner, or raise ledger_cells of the client's options");
  add("pin_budget",
      "the client pinned what it may, " + bytes(at(status, "memory"), "pin_cap_bytes") +
          " a client now",
      "release read plans sooner, or raise --max-pinned (client.max_pinned)");
  add("not_attached", "the client had no node yet, or had lost its memory",
      "start the node before the engine; it goes on by itself once attached");
  add("group_incomplete", "a member of the reader's group was missing",
      "readers' groups must not be longer than the writers'");
  add("deadline", "the caller's time was over", "a longer call budget, or shorter lists of keys");
}

void mismatches(const Json& status, std::vector<Check>& out) {
  const Json& counters = at(status, "counters");
  const std::uint64_t confirmed = number(counters, "mismatches_confirmed");
  const std::uint64_t denied = number(counters, "false_mismatches");
  const std::uint64_t seen =
      std::max(number(at(status, "traffic"), "mismatches"), number(counters, "mismatch_reports"));
  if (seen + confirmed + denied == 0) return;
  Check check{.name = "mismatch", .verdict = Verdict::kFailure};
  check.finding = format_count(seen) + (seen == 1 ? " value" : " values") +
                  " did not match their checksum; the node found " + format_count(confirmed) +
                  " of them wrong too (dropped) and " + format_count(denied) + " right";
  check.remedy =
      confirmed >= denied
          ? "memory, or a writer that writes after its commit or where it may not: look at the "
            "writers and at the machine's memory (EDAC, mcelog)"
          : "those clients see other bytes than the node: a wrong buffer, link or build there";
  check.figures = {{"seen", seen}, {"confirmed", confirmed}, {"false", denied}};
  out.push_back(std::move(check));
}

std::string client_name(const Json& client) {
  return "client " + count(client, "client") + " (" + text(client, "name") + ", pid " +
         std::to_string(number(client, "pid")) + ")";
}

void old_plans(const Json& status, std::vector<Check>& out) {
  const auto add = [&](const Json& client, std::string finding, const char* remedy) {
    out.push_back({.name = "pins",
                   .verdict = Verdict::kWarning,
                   .finding = client_name(client) + std::move(finding),
                   .remedy = remedy,
                   .figures = {{"client", number(client, "client")},
                               {"pid", number(client, "pid")},
                               {"pinned_bytes", number(client, "pinned_bytes")},
                               {"prepared_bytes", number(client, "prepared_bytes")}}});
  };
  for (const Json& client : array_at(status, "clients")) {
    if (at(client, "state") == Json("held_by_fork")) {
      add(client,
          " has died, and a process that it forked lives on: " + bytes(client, "prepared_bytes") +
              " reserved by its puts stay until that ends (held_by_fork)",
          "end the forked process (ps --ppid, /proc/*/fd with the same pipe); fork before the "
          "client is opened, or exec");
      continue;
    }
    if (seconds(client, "oldest_read_plan_seconds") >= kOldPlanSeconds) {
      add(client,
          " has a read plan open for " + duration(client, "oldest_read_plan_seconds") + ", " +
              bytes(client, "pinned_bytes") + " pinned",
          "release_views is missing, or the process hangs: its pages cannot leave");
    }
    if (seconds(client, "oldest_put_seconds") >= kOldPlanSeconds) {
      add(client,
          " has a put open for " + duration(client, "oldest_put_seconds") + ", " +
              bytes(client, "prepared_bytes") + " reserved",
          "put_commit or put_abort is missing, or the process is stopped");
    }
    if (at(client, "over_pin_budget") == Json(true)) {
      add(client, " pins more than its budget: " + bytes(client, "pinned_bytes"),
          "it gets no new read plans until it releases some");
    }
  }
}

}  // namespace

std::vector<Check> diagnose_refusals(const Json& status) {
  std::vector<Check> out;
  draining(status, out);
  refused_puts(status, out);
  short_reads(status, out);
  mismatches(status, out);
  old_plans(status, out);
  return out;
}

}  // namespace orlop::cli
