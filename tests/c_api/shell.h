// SPDX-License-Identifier: Apache-2.0
// One shell command and what it said.
#pragma once

#include <string>

namespace orlop::c_api_test {

struct Said {
  int status = -1;   // exit status; -1: did not end by itself
  std::string text;  // stdout and stderr together
};
Said shell(const std::string& command);

}  // namespace orlop::c_api_test
