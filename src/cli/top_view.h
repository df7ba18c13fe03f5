// SPDX-License-Identifier: Apache-2.0
// The screen of `orlop top` as text. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "cli/report.h"
#include "cli/top_history.h"

namespace orlop::cli {

struct ScreenSize {
  std::size_t columns = 80, rows = 24;
};

// At most size.rows lines, each at most size.columns wide and ended by a newline; what does not fit
// is cut, and lists say how many of them are not shown. A field that the node does not tell is "-".
// Below 20 x 4 only what fits of the first lines.
std::string top_view(const TopHistory& history, ScreenSize size, const Painter& paint);

// At most `width` columns; a longer text ends with an ellipsis.
std::string shortened(const std::string& text, std::size_t width);
// At most `width` visible columns, escape sequences kept whole and closed.
std::string clipped(const std::string& line, std::size_t width);

}  // namespace orlop::cli
