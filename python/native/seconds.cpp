// SPDX-License-Identifier: Apache-2.0
#include "seconds.h"

#include <string>

namespace orlop::python {

Milliseconds milliseconds_of(double seconds, const char* argument) {
  constexpr double kLongest = 365.0 * 24 * 3600;
  if (!(seconds >= 0)) {  // nor is NaN
    raise(ErrorCode::kInvalidArgument,
          std::string(argument) + ": is negative or no number; give 0 or more seconds");
  }
  return std::chrono::ceil<Milliseconds>(
      std::chrono::duration<double>(std::min(seconds, kLongest)));
}

}  // namespace orlop::python
