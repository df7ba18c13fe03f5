// SPDX-License-Identifier: Apache-2.0
#include "shell.h"

#include <sys/wait.h>

#include <array>
#include <cstdio>

namespace orlop::c_api_test {

Said shell(const std::string& command) {
  Said said;
  std::FILE* pipe = ::popen(("{ " + command + "; } 2>&1").c_str(), "r");
  if (pipe == nullptr) return said;
  std::array<char, 4096> part{};
  for (std::size_t n; (n = std::fread(part.data(), 1, part.size(), pipe)) > 0;)
    said.text.append(part.data(), n);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) said.status = WEXITSTATUS(status);
  return said;
}

}  // namespace orlop::c_api_test
