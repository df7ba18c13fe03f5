// SPDX-License-Identifier: Apache-2.0
// orlop version: what this binary is, and what it uses of this CPU.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/build_info.h"
#include "cli/command.h"
#include "cli/json_parts.h"
#include "copy/copy.h"
#include "segment/control_area.h"

namespace orlop::cli {
namespace {

ExitCode run(bool json) {
  const std::string copy_kind(to_string(process_copy_engine().kind()));
  if (json) {
    const nlohmann::ordered_json out{{"version", kBuildVersion},
                                     {"commit", kBuildCommit},
                                     {"abi", segment::kAbiVersion},
                                     {"compiler", kBuildCompiler},
                                     {"copy_kind", copy_kind}};
    print_json(out);
  } else {
    std::printf("orlop %s (commit %s, abi %u, %s, copies with %s)\n", kBuildVersion, kBuildCommit,
                segment::kAbiVersion, kBuildCompiler, copy_kind.c_str());
  }
  return ExitCode::kOk;
}

}  // namespace

void register_version(CLI::App& app, Action& chosen) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("version", "Version, commit, ABI, compiler, CPU features");
  command->add_flag("--json", *json, "one JSON object");
  command->callback([json, &chosen] { chosen = [json] { return run(*json); }; });
}

}  // namespace orlop::cli
