// SPDX-License-Identifier: Apache-2.0
#include "cli/report.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace orlop::cli {
namespace {

const char* escape_of(Ink ink) {
  switch (ink) {
    case Ink::kPlain:
      return "";
    case Ink::kBold:
      return "\033[1m";
    case Ink::kDim:
      return "\033[2m";
    case Ink::kGood:
      return "\033[32m";
    case Ink::kWarning:
      return "\033[33m";
    case Ink::kBad:
      return "\033[31m";
  }
  return "";
}

double us_of(std::uint64_t nanoseconds) {
  return std::round(static_cast<double>(nanoseconds)) / 1000.0;
}

}  // namespace

bool is_terminal(int fd) {
  return ::isatty(fd) == 1;
}

bool wants_colour(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* term = std::getenv("TERM");
  if (term != nullptr && std::string_view(term) == "dumb") return false;
  return is_terminal(fd);
}

unsigned terminal_width(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string Painter::operator()(Ink ink, std::string_view text) const {
  if (!colour_ || ink == Ink::kPlain) return std::string(text);
  return escape_of(ink) + std::string(text) + "\033[0m";
}

std::size_t visible_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0x1b) {
      while (i < text.size() && text[i] != 'm') ++i;
    } else if ((byte & 0xc0) != 0x80) {  // not a continuation byte
      ++width;
    }
  }
  return width;
}

Table& Table::row(std::vector<std::string> cells) {
  rows_.push_back(std::move(cells));
  return *this;
}

std::string Table::text(std::size_t indent) const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], visible_width(row[i]));
    }
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line(indent, ' ');
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - visible_width(row[i]), ' ');
      const bool left = i < alignment_.size() ? alignment_[i] == 'l' : false;
      if (i > 0) line += "  ";
      line += left ? row[i] + padding : padding + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string bar(double part, std::size_t width) {
  const double filled = std::clamp(part, 0.0, 1.0) * static_cast<double>(width);
  const auto marks = static_cast<std::size_t>(std::lround(filled));
  return "[" + std::string(marks, '#') + std::string(width - marks, '.') + "]";
}

double ratio(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * ratio(part, whole));
  return text;
}

LatencyUs latency_us(const Histogram& nanoseconds) {
  return {us_of(nanoseconds.percentile(50)), us_of(nanoseconds.percentile(95)),
          us_of(nanoseconds.percentile(99))};
}

}  // namespace orlop::cli
