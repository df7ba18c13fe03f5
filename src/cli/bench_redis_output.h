// SPDX-License-Identifier: Apache-2.0
// What `redis-benchmark --csv` prints. Pure.
#pragma once

#include <string_view>

#include "orlop/error.h"

namespace orlop::cli {

// Requests per second of the row named test ("SET"): `"SET","123456.78",...`. Later columns
// (latencies, since redis 6.2) and other lines are ignored. Errors: kCorrupt, the output quoted.
Result<double> redis_requests_per_second(std::string_view csv, std::string_view test);

}  // namespace orlop::cli
