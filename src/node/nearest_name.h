// SPDX-License-Identifier: Apache-2.0
// "Did you mean ...?": the known name that a wrong one most likely stands for. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orlop::node {

// The known name with the fewest edits (insert, delete, replace a letter, swap two neighbours) to
// `name`; the part behind the last dot counts alone as well, so that "capacity" finds
// "memory.capacity". Empty when nothing is near: more than a third of the letters would have to
// change. The first of several equal ones.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

// "; did you mean \"NEAREST\"?", or "; `LISTED_BY` lists what there is".
std::string nearest_hint(std::string_view name, const std::vector<std::string>& known,
                         std::string_view listed_by);

}  // namespace orlop::node
