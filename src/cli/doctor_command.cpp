// SPDX-License-Identifier: Apache-2.0
// orlop doctor: what is wrong here, with the figures and what to do.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/build_info.h"
#include "cli/command.h"
#include "cli/doctor_check.h"
#include "cli/doctor_environment.h"
#include "cli/doctor_namespaces.h"
#include "cli/doctor_node.h"
#include "cli/doctor_round_trip.h"
#include "cli/doctor_traffic.h"
#include "cli/doctor_vllm.h"
#include "cli/json_parts.h"
#include "cli/node_target.h"
#include "cli/report.h"
#include "orlop/namespace.h"
#include "segment/control_area.h"

namespace orlop::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  std::string socket;
  std::string descriptor;
  bool json = false;
};

struct Examination {
  std::vector<Section> sections;
  bool node_found = false;
};

// descriptor: null when none was given.
Examination examine(const std::string& socket, const Json& descriptor) {
  Examination out;
  const NodeLook look = look_at_node(socket);
  const auto keeper = static_cast<pid_t>(look.file ? look.file->keeper_pid : 0);
  const Environment environment = measure_environment(socket, keeper, look.status);
  out.sections.push_back({"environment", judge_environment(environment)});
  Section node{"node", judge_node(look, kBuildVersion, segment::kAbiVersion)};
  if (!descriptor.is_null() && !look.status.is_null()) {
    node.checks.push_back(judge_descriptor(without_doctor(look.status), descriptor));
  }
  out.sections.push_back(std::move(node));
  // A node that does not tell about itself may serve all the same.
  RoundTrip trip;
  if (!look.status.is_null() || environment.socket.exists) trip = make_round_trip(socket);
  if (!trip.checks.empty()) out.sections.push_back({"round trip", std::move(trip.checks)});
  // Of the time before the round trip.
  if (!look.status.is_null()) {
    out.sections.push_back({"traffic", diagnose(without_doctor(look.status))});
  }
  out.node_found = !look.status.is_null() || trip.attached;
  return out;
}

ExitCode run(const Arguments& arguments) {
  const std::string socket = socket_or_default(arguments.socket);
  Json descriptor;
  if (!arguments.descriptor.empty()) {
    const auto parsed = parse_descriptor(arguments.descriptor);
    const auto text = parsed ? canonical_text(*parsed) : std::unexpected(parsed.error());
    if (!text) {
      (void)report_error("doctor", text.error());
      return ExitCode::kUsage;  // whatever the code: it is what was written after --descriptor
    }
    descriptor = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  }
  const Examination examination = examine(socket, descriptor);
  if (arguments.json) {
    print_json(doctor_json(examination.sections));
  } else {
    const Painter paint(wants_colour(STDOUT_FILENO));
    std::fputs(doctor_text(examination.sections, paint, terminal_width(STDOUT_FILENO)).c_str(),
               stdout);
  }
  if (!examination.node_found) return ExitCode::kNoNode;
  return worst(examination.sections) == Verdict::kFailure ? ExitCode::kBad : ExitCode::kOk;
}

// Returns the subcommand, whose action is the one when it was asked for. own: options of the doctor
// itself, which may stand before the subcommand.
const CLI::App* add_vllm(CLI::App& doctor, const std::shared_ptr<Arguments>& own, Action& chosen) {
  auto what = std::make_shared<VllmDoctor>();
  CLI::App* command =
      doctor.add_subcommand("vllm", "Why vLLM takes little or nothing from the node, in words");
  command->add_option("--python", what->python,
                      "the engine's Python; default: $ORLOP_PYTHON, else python3");
  command->add_option("--metrics", what->metrics, "of a running vllm serve: http://HOST:PORT");
  add_socket_option(*command, what->socket);
  command->add_flag("--json", what->json, "one JSON object");
  command->callback([what, own, &chosen] {
    if (what->socket.empty()) what->socket = own->socket;
    what->json = what->json || own->json;
    chosen = [what] { return become_vllm_doctor(*what); };
  });
  return command;
}

}  // namespace

void register_doctor(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "doctor", "What is wrong: machine, node, a round trip, and why there are no hits");
  add_socket_option(*command, arguments->socket);
  command->add_option("--descriptor", arguments->descriptor,
                      "a namespace descriptor as JSON: does the node know it, else what differs");
  command->add_flag("--json", arguments->json, "one JSON object");
  const CLI::App* vllm = add_vllm(*command, arguments, chosen);
  command->callback([arguments, vllm, &chosen] {
    if (!vllm->parsed()) chosen = [arguments] { return run(*arguments); };
  });
}

}  // namespace orlop::cli
