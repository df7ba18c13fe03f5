// SPDX-License-Identifier: Apache-2.0
// Does what an engine does, once: attach, open a namespace, ping, put a page, read it back byte for
// byte, remove it, detach. Check names are these steps; the first that fails is the last.
//
// Leaves nothing behind but the row of its namespace (engine kDoctorEngine), which all runs share:
// the page is removed whatever happened after its put.
// Thread: one. Takes at most some seconds.
#pragma once

#include <string>
#include <vector>

#include "cli/doctor_check.h"

namespace orlop::cli {

struct RoundTrip {
  bool attached = false;
  std::vector<Check> checks;
};

RoundTrip make_round_trip(const std::string& socket);

}  // namespace orlop::cli
