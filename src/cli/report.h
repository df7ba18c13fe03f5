// SPDX-License-Identifier: Apache-2.0
// Text output for people: a table of aligned columns, a bar, colours only where they are wanted.
// Sizes, counts and times are written by base/units.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.h"
#include "base/units.h"

namespace orlop::cli {

enum class Ink { kPlain, kBold, kDim, kGood, kWarning, kBad };

// Whether escape sequences may be written: the descriptor is a terminal, NO_COLOR is unset or empty
// and TERM is not "dumb" (https://no-color.org).
bool wants_colour(int fd);
bool is_terminal(int fd);
// Columns of the terminal, 80 when unknown.
unsigned terminal_width(int fd);

class Painter {
 public:
  explicit Painter(bool colour) : colour_(colour) {}
  std::string operator()(Ink ink, std::string_view text) const;

 private:
  bool colour_;
};

// Columns that visible characters *occupy*: escape sequences count 0, a UTF-8 character 1.
std::size_t visible_width(std::string_view text);

// Rows of cells; columns are as wide as their widest cell, two spaces apart. The first column is
// left-aligned, the others right-aligned unless said otherwise.
class Table {
 public:
  // One letter a column: 'l' or 'r'; missing letters count as 'r'.
  explicit Table(std::string alignment = "l") : alignment_(std::move(alignment)) {}
  Table& row(std::vector<std::string> cells);
  // Every line begins with `indent` spaces and ends with a newline, no trailing spaces.
  std::string text(std::size_t indent = 2) const;

 private:
  std::string alignment_;
  std::vector<std::vector<std::string>> rows_;
};

// "[#######.............]": part of whole, width characters between the brackets.
std::string bar(double part, std::size_t width);

// "79.4 %"; "-" when whole is 0.
std::string percent(std::uint64_t part, std::uint64_t whole);
double ratio(std::uint64_t part, std::uint64_t whole);  // 0 when whole is 0

// Percentiles of a histogram of nanoseconds, in microseconds, for JSON.
struct LatencyUs {
  double p50 = 0, p95 = 0, p99 = 0;
};
LatencyUs latency_us(const Histogram& nanoseconds);

}  // namespace orlop::cli
