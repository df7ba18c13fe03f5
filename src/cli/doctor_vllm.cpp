// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_vllm.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace orlop::cli {
namespace {

// Not `-m orlop.vllm.doctor`: a Python without the package shall say what to do, and the folder
// that the user happens to be in shall not be imported from (Python before 3.11 has no option -P).
constexpr const char* kStart = R"(
import sys
sys.path[:] = [path for path in sys.path if path]
try:
    from orlop.vllm.doctor import main
except Exception as error:
    print("orlop doctor vllm: " + sys.executable + " cannot import the package orlop (" + str(error)
          + "); name the engine's Python with --python or in ORLOP_PYTHON, and install the package there",
          file=sys.stderr)
    sys.exit(5)
sys.exit(main(sys.argv[1:]))
)";

std::string python_of(const std::string& given) {
  if (!given.empty()) return given;
  const char* named = std::getenv("ORLOP_PYTHON");
  return named != nullptr && *named != '\0' ? named : "python3";
}

}  // namespace

ExitCode become_vllm_doctor(const VllmDoctor& what) {
  std::vector<std::string> words{python_of(what.python), "-c", kStart};
  const auto add = [&words](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--socket", what.socket);
  add("--metrics", what.metrics);
  if (what.json) words.emplace_back("--json");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  std::fprintf(stderr,
               "orlop doctor vllm: cannot start %s: %s; name the engine's Python with --python\n",
               words.front().c_str(), std::strerror(errno));
  return ExitCode::kFailed;
}

}  // namespace orlop::cli
