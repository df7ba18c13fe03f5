// SPDX-License-Identifier: Apache-2.0
// Misses by what became of the page.
#include "base/units.h"
#include "cli/doctor_traffic.h"
#include "cli/report.h"
#include "cli/status_fields.h"

namespace orlop::cli {
namespace {

using namespace status_fields;

class Misses {
 public:
  Misses(const Json& status, bool low)
      : status_(status),
        counters_(at(status, "counters")),
        missed_(at(at(status, "traffic"), "missed")),
        all_(sum_of(missed_)),
        low_(low) {}

  std::vector<Check> checks() {
    if (told("never_written")) never_written();
    if (told("evicted")) evicted();
    if (told("removed")) removed();
    if (told("flushed")) flushed();
    return std::move(checks_);
  }

 private:
  bool told(const char* cause) const {
    const std::uint64_t misses = number(missed_, cause);
    return misses > 0 && ratio(misses, all_) >= kToldShare;
  }
  // "120 of 150 misses"
  std::string share(const char* cause) const {
    return count(missed_, cause) + " of " + format_count(all_) + " misses";
  }
  void add(const char* cause, std::string finding, std::string remedy, Json figures) {
    figures["misses"] = number(missed_, cause);
    figures["misses_all"] = all_;
    checks_.push_back({.name = cause,
                       .verdict = low_ ? Verdict::kWarning : Verdict::kOk,
                       .finding = std::move(finding),
                       .remedy = low_ ? std::move(remedy) : "",
                       .figures = std::move(figures)});
  }

  bool anything_written() const {
    return number(at(status_, "traffic"), "keys_put") + number(counters_, "keys_offered") +
               number(at(status_, "memory"), "readable_bytes") >
           0;
  }

  void never_written() {
    if (!anything_written()) {
      add("never_written",
          share("never_written") + " were for keys that were never written: nobody wrote any key",
          "the writer is missing: give the engine's connector the role of a producer too, and let "
          "a request finish",
          {{"keys_put", 0}});
      return;
    }
    bool found = false;
    for (const Json& ns : array_at(status_, "namespaces")) {
      const std::uint64_t misses = number(at(ns, "missed"), "never_written");
      const std::uint64_t stored = number(ns, "keys_stored") + number(ns, "slots");
      // One that nobody writes at all is told by the check `namespace`.
      if (misses == 0 || stored == 0 || ratio(misses, all_) < kToldShare) continue;
      found = true;
      const Json& descriptor = at(ns, "descriptor");
      add("never_written",
          "in namespace " + count(ns, "row") + " (" + text(descriptor, "engine") + ", model " +
              text(descriptor, "model") + ") " + count(ns, "keys_stored") + " keys were stored (" +
              count(ns, "slots") + " pages are there), and " + format_count(misses) +
              " misses were for keys that were never written there",
          "unless these prompts are really new, reader and writer make different keys for the same "
          "tokens: set PYTHONHASHSEED to the same number for every engine process, and use the "
          "same "
          "hash algorithm, cache salt, tokenizer and page size",
          {{"row", number(ns, "row")},
           {"keys_stored", number(ns, "keys_stored")},
           {"pages", number(ns, "slots")},
           {"never_written", misses}});
    }
    if (!found) {
      add("never_written", share("never_written") + " were for keys that were never written",
          "where they were asked nothing was stored: see the other checks", Json::object());
    }
  }

  // How long a page stays: what is readable, over the rate at which it is written.
  std::string life_of_a_page() const {
    const std::uint64_t written = number(counters_, "commit_bytes");
    const double up = seconds(status_, "server_uptime_seconds");
    if (written == 0 || up <= 0) return "";
    const std::uint64_t readable = number(at(status_, "memory"), "readable_bytes");
    return ", a page stays about " + duration_text(up * ratio(readable, written));
  }

  void evicted() {
    const std::uint64_t capacity = number(at(status_, "memory"), "value_bytes");
    const std::uint64_t gone = number(counters_, "bytes_evicted");
    std::string remedy = "raise --capacity";
    if (capacity > 0 && gone > 0) {
      remedy += ": " + format_bytes(capacity + gone) +
                " would have kept all that was written since the server's start";
    }
    add("evicted",
        share("evicted") + " were for pages that had been evicted before they were asked for; " +
            count(counters_, "slots_evicted") + " pages (" + bytes(counters_, "bytes_evicted") +
            ") were evicted" + life_of_a_page() + "; the value area is " +
            bytes(at(status_, "memory"), "value_bytes"),
        remedy + "; or send the requests of one conversation to the same host",
        {{"slots_evicted", number(counters_, "slots_evicted")},
         {"bytes_evicted", gone},
         {"value_bytes", capacity},
         {"suggested_capacity_bytes", capacity + gone}});
  }

  void removed() {
    add("removed",
        share("removed") + " were for pages that somebody had removed; " +
            count(counters_, "removed_slots") + " pages were removed since the server's start",
        "find out who calls remove: `orlop remove`, or an engine that drops its cache",
        {{"removed_slots", number(counters_, "removed_slots")}});
  }

  void flushed() {
    add("flushed",
        share("flushed") + " were for pages that a flush had dropped; " +
            count(counters_, "flushes") +
            (number(counters_, "flushes") == 1 ? " flush" : " flushes") + " dropped " +
            count(counters_, "flushed_slots") + " pages since the server's start",
        "a flush belongs to a change of weights: see who calls it more often than that",
        {{"flushes", number(counters_, "flushes")},
         {"flushed_slots", number(counters_, "flushed_slots")}});
  }

  const Json& status_;
  const Json& counters_;
  const Json& missed_;
  std::uint64_t all_;
  bool low_;
  std::vector<Check> checks_;
};

}  // namespace

std::vector<Check> diagnose_misses(const Json& status, bool low) {
  return Misses(status, low).checks();
}

}  // namespace orlop::cli
