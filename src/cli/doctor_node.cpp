// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_node.h"

#include "base/units.h"
#include "cli/admin_client.h"
#include "cli/doctor_namespaces.h"
#include "cli/report.h"
#include "cli/status_fields.h"

namespace orlop::cli {
namespace {

using namespace status_fields;

// A server that ended and whose follower is younger than this may end again.
constexpr double kFreshServerSeconds = 300;

// The number, or null: what is not told is not 0.
Json told(const Json& json, std::string_view field) {
  const auto number = known_number(json, field);
  return number ? Json(*number) : Json(nullptr);
}

std::string pid_text(const Json& status) {
  const auto pid = known_number(status, "keeper_pid");
  return pid ? std::to_string(*pid) : "-";
}

Check found(const NodeLook& look) {
  Check check{.name = "node"};
  if (look.status.is_null()) {
    check.verdict = Verdict::kFailure;
    check.finding = look.why;
    check.remedy =
        look.file && look.file->admin == "off"
            ? "start the node with an admin address (--admin 127.0.0.1:0), or doctor, top "
              "and status see nothing"
            : "start one with `orlop serve --capacity 64GiB`, or name its socket with "
              "--socket or ORLOP_SOCKET";
    return check;
  }
  const std::string state = text(look.status, "state");
  const bool draining = is_draining(look.status);
  check.finding = state + "; keeper pid " + pid_text(look.status) + ", up " +
                  duration(look.status, "uptime_seconds");
  check.figures = {{"state", state},
                   {"draining", draining},
                   {"uptime_seconds", seconds(look.status, "uptime_seconds")}};
  if (state != "ready" || draining) {
    check.verdict = Verdict::kWarning;
    check.remedy = draining ? "puts are refused until `orlop drain --undo`" : "it is about to end";
  } else if (!look.keeper_visible) {
    check.verdict = Verdict::kWarning;
    check.finding += " (a pid that is not to be seen from here)";
    check.remedy =
        "node and engine are in different pid namespaces: fine with Linux 6.5, see pidfd";
  }
  return check;
}

Check versions(const Json& status, const std::string& version, std::uint64_t abi) {
  const std::string theirs = text(status, "version");
  const auto their_abi = known_number(status, "abi");
  Check check{.name = "versions",
              .finding = "node " + theirs + " (ABI " + count(status, "abi") + "), this program " +
                         version + " (ABI " + std::to_string(abi) + ")",
              .figures = {{"node_version", theirs},
                          {"node_abi", told(status, "abi")},
                          {"version", version},
                          {"abi", abi}}};
  if (!their_abi) {
    check.verdict = Verdict::kWarning;
    check.remedy = "this node does not tell its ABI: `attach` below shows whether they fit";
  } else if (*their_abi != abi) {
    check.verdict = Verdict::kFailure;
    check.remedy = "clients of this version are refused (abi_mismatch): install the same version";
  } else if (theirs != version) {
    check.verdict = Verdict::kWarning;
    check.remedy = "they understand each other; update the older one when convenient";
  }
  return check;
}

Check restarts(const Json& status) {
  const std::uint64_t times = number(status, "restarts");
  Check check{.name = "restarts", .figures = {{"restarts", told(status, "restarts")}}};
  if (!known_number(status, "restarts")) {
    check.finding = "this node does not tell whether its server ever ended";
    return check;
  }
  if (times == 0) {
    check.finding = "the server never ended";
    return check;
  }
  check.finding = "the server ended " + format_count(times) + (times == 1 ? " time" : " times") +
                  ", last: " + text(status, "last_end") + ", " +
                  duration(status, "server_uptime_seconds") + " ago";
  if (known_seconds(status, "server_uptime_seconds").value_or(kFreshServerSeconds) <
      kFreshServerSeconds) {
    check.verdict = Verdict::kWarning;
    check.remedy =
        "the node's log says why (event=server_ended, server_failed, CHECK failed); pages are kept";
  }
  return check;
}

Check capacity(const Json& status) {
  const Json& memory = at(status, "memory");
  const auto whole = known_number(memory, "value_bytes");
  const auto readable = known_number(memory, "readable_bytes");
  return {.name = "capacity",
          .finding = bytes(memory, "value_bytes") + ": " + bytes(memory, "readable_bytes") +
                     " readable (" + (whole && readable ? percent(*readable, *whole) : "-") +
                     "), " + bytes(memory, "prepared_bytes") + " being written, " +
                     count(status, "waiting_puts") + " puts wait for space",
          .figures = {{"value_bytes", told(memory, "value_bytes")},
                      {"readable_bytes", told(memory, "readable_bytes")},
                      {"prepared_bytes", told(memory, "prepared_bytes")},
                      {"waiting_puts", told(status, "waiting_puts")}}};
}

}  // namespace

NodeLook look_at_node(const std::string& socket) {
  NodeLook look;
  const auto found_node = find_node(socket);
  look.keeper_visible = found_node.has_value();
  const auto file = node::read_status_file(socket);
  if (!file) {
    look.why = file.error().message;
    return look;
  }
  look.file = *file;
  const auto status = fetch(file->admin, "/status.json");
  if (!status) {
    look.why = found_node ? status.error().message : found_node.error().message;
    return look;
  }
  if (auto parsed = parse_answer(*status)) {
    look.status = *std::move(parsed);
  } else {
    look.why = "/status.json at " + file->admin + " is no JSON object";
  }
  return look;
}

std::vector<Check> judge_node(const NodeLook& look, const std::string& version, std::uint64_t abi) {
  std::vector<Check> out{found(look)};
  if (look.status.is_null()) return out;
  out.push_back(versions(look.status, version, abi));
  out.push_back(restarts(look.status));
  out.push_back(capacity(look.status));
  return out;
}

Check judge_descriptor(const Json& status, const Json& descriptor) {
  Check check{.name = "descriptor"};
  const auto nearest = nearest_namespace(at(status, "namespaces"), descriptor);
  if (!nearest) {
    check.verdict = Verdict::kWarning;
    check.finding = "the node has no namespace yet";
    check.remedy = "nobody has opened one: see the check `attached`";
  } else if (nearest->differences.empty()) {
    check.finding = "the node knows it as " + nearest->name;
  } else {
    check.verdict = Verdict::kWarning;
    check.finding =
        "the node does not know this namespace; nearest is " + nearest->name + ". They differ in ";
    for (std::size_t i = 0; i < nearest->differences.size(); ++i) {
      check.finding += (i == 0 ? "" : "; ") + nearest->differences[i];
    }
    check.remedy = "values are shared only when every field agrees";
    check.figures["differences"] = nearest->differences;
  }
  return check;
}

}  // namespace orlop::cli
