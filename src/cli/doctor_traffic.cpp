// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_traffic.h"

#include "base/units.h"
#include "cli/doctor_namespaces.h"
#include "cli/report.h"
#include "cli/status_fields.h"

namespace orlop::cli {
namespace {

using namespace status_fields;

std::string clients_text(std::uint64_t clients) {
  return format_count(clients) + (clients == 1 ? " client is" : " clients are");
}

Check attached(const Json& status) {
  const std::uint64_t now = number(status, "attached");
  const std::uint64_t ever = number(at(status, "counters"), "clients_attached");
  Check check{.name = "attached", .figures = {{"attached", now}, {"attached_since_start", ever}}};
  if (!known_number(status, "attached")) {
    check.finding = "this node does not tell how many clients are attached";
    check.figures = Json::object();
    return check;
  }
  if (now > 0) {
    check.finding = clients_text(now) + " attached";
    return check;
  }
  check.verdict = Verdict::kWarning;
  check.finding =
      "no client is attached (" + format_count(ever) + " attached since the server's start)";
  check.remedy =
      "start the engine with its Orlop connector on, as the node's user, with the node's socket in "
      "ORLOP_SOCKET; from a container the socket's folder must be mounted";
  return check;
}

// What a refusal of an attach means, by its code.
struct RefusalCause {
  const char* code;
  Verdict verdict;
  const char* meaning;
  const char* remedy;
};
constexpr RefusalCause kRefusalCauses[] = {
    {"abi_mismatch", Verdict::kFailure, "client and node are of different versions",
     "install the same version of Orlop in the engine's environment and for the node "
     "(`orlop version`)"},
    {"refused", Verdict::kFailure, "another user, or a process whose death could not be proved",
     "run the engine as the node's user or name its uid in node.allow_uids; in containers share "
     "the pid namespace or use Linux 6.5; the node's log line event=refused says which it was"},
    {"namespace_conflict", Verdict::kFailure, "a namespace's descriptor is not understood",
     "use the same version of the engine's connector everywhere"},
    {"limit", Verdict::kWarning, "too many clients or handshakes at once",
     "one client object a process is enough; at most 256 clients share a node"},
};

void refused_attaches(const Json& status, std::vector<Check>& out) {
  const Json& refused = at(at(status, "counters"), "refused");
  if (!refused.is_object()) return;
  for (const auto& [code, value] : refused.items()) {
    const std::uint64_t times = number(refused, code);
    if (times == 0) continue;
    RefusalCause cause{code.c_str(), Verdict::kWarning, "see the node's log line event=refused",
                       "the log line names the client and the reason"};
    for (const RefusalCause& known : kRefusalCauses) {
      if (code == known.code) cause = known;
    }
    out.push_back({.name = "refused_attach",
                   .verdict = cause.verdict,
                   .finding = format_count(times) +
                              (times == 1 ? " attach was" : " attaches were") + " refused (" +
                              masked(code) + "): " + cause.meaning,
                   .remedy = cause.remedy,
                   .figures = {{"code", code}, {"refused", times}}});
  }
}

// Clients that only write, or do nothing.
Check never_asked(const Json& status) {
  const Json& traffic = at(status, "traffic");
  const std::uint64_t attached_now = number(status, "attached");
  const std::uint64_t put = number(traffic, "keys_put");
  Check check{.name = "asked", .verdict = Verdict::kWarning};
  check.figures = {{"keys_asked", 0}, {"keys_put", put}};
  if (put > 0) {
    check.finding = "clients wrote " + format_count(put) + " keys and never asked for one";
    check.remedy =
        "the engine stores but does not look up: give its connector both roles (producer and "
        "consumer) and leave prefix caching on";
  } else {
    check.finding =
        clients_text(attached_now) + " attached and never asked for a key nor wrote one";
    check.remedy =
        "send the engine a request that is longer than one page (page_tokens); if this stays, its "
        "connector is not in use: the engine's log names the connector that it loaded";
  }
  return check;
}

Check hit_rate(const Json& traffic, bool low) {
  const std::uint64_t hit = number(traffic, "keys_hit"), asked = number(traffic, "keys_asked");
  return {.name = "hit_rate",
          .verdict = low ? Verdict::kWarning : Verdict::kOk,
          .finding = percent(hit, asked) + ": " + format_count(hit) + " of " + format_count(asked) +
                     " keys asked were hits, in " + count(traffic, "gets") + " plans",
          .remedy = low ? "the checks below say what the misses came from" : "",
          .figures = {{"keys_hit", hit}, {"keys_asked", asked}, {"gets", number(traffic, "gets")}}};
}

void namespace_splits(const Json& status, std::vector<Check>& out) {
  const bool nothing_hits = number(at(status, "traffic"), "keys_hit") == 0;
  for (const NamespaceSplit& split : find_namespace_splits(at(status, "namespaces"))) {
    std::string fields;
    for (const std::string& field : split.differences) {
      fields += (fields.empty() ? "" : "; ") + field;
    }
    const bool proved = split.elsewhere > 0;
    Check check{.name = "namespace",
                .verdict = proved || nothing_hits ? Verdict::kFailure : Verdict::kWarning};
    check.finding = "asked in " + split.asked + ": " + format_count(split.misses) + " misses" +
                    (proved ? ", " + format_count(split.elsewhere) + " of them for keys that are " +
                                  "in another namespace"
                            : ", nothing was ever written there") +
                    "; written in " + split.written + ": " + format_count(split.pages) +
                    " pages. They differ in " + fields;
    check.remedy =
        "values are shared only when every field agrees: start reader and writer with the same "
        "settings for what differs";
    check.figures = {{"misses", split.misses},
                     {"in_other_namespace", split.elsewhere},
                     {"pages_written", split.pages},
                     {"differences", split.differences}};
    out.push_back(std::move(check));
  }
}

}  // namespace

std::vector<Check> diagnose(const Json& status) {
  std::vector<Check> out;
  out.push_back(attached(status));
  refused_attaches(status, out);
  const Json& traffic = at(status, "traffic");
  if (!known_number(traffic, "keys_asked") || !known_number(traffic, "keys_hit")) {
    out.push_back({.name = "hit_rate",
                   .verdict = Verdict::kWarning,
                   .finding = "unknown: this node (version " + text(status, "version") +
                              ") does not tell what its clients ask",
                   .remedy = "start a node of this program's version"});
  } else if (number(traffic, "keys_asked") == 0) {
    if (number(status, "attached") > 0 || number(traffic, "keys_put") > 0) {
      out.push_back(never_asked(status));
    }
  } else {
    const bool low =
        ratio(number(traffic, "keys_hit"), number(traffic, "keys_asked")) < kLowHitRate;
    out.push_back(hit_rate(traffic, low));
    namespace_splits(status, out);
    for (Check& check : diagnose_misses(status, low)) out.push_back(std::move(check));
  }
  for (Check& check : diagnose_refusals(status)) out.push_back(std::move(check));
  return out;
}

}  // namespace orlop::cli
