// SPDX-License-Identifier: Apache-2.0
// Options that are good each and contradict each other.
#pragma once

#include "node/option_sources.h"

namespace orlop::node {

// Appends to settings.mistakes. Requires that every single value was valid. A memory size that is
// not given is no contradiction.
void check_together(Settings& settings);

}  // namespace orlop::node
