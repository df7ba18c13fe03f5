// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <array>
#include <cstdio>
#include <span>

#include "base/bytes.h"

namespace orlop {
namespace {

struct Unit {
  std::string_view name;  // lower case
  std::uint64_t factor;
};

constexpr std::uint64_t kTiB = 1024 * kGiB;
constexpr std::array kByteUnits = {
    Unit{"", 1},       Unit{"b", 1},    Unit{"k", kKiB},   Unit{"kib", kKiB}, Unit{"m", kMiB},
    Unit{"mib", kMiB}, Unit{"g", kGiB}, Unit{"gib", kGiB}, Unit{"t", kTiB},   Unit{"tib", kTiB},
};
constexpr std::array kTimeUnits = {
    Unit{"ns", 1},           Unit{"us", kNsPerUs},         Unit{"ms", kNsPerMs},
    Unit{"s", kNsPerSecond}, Unit{"m", 60 * kNsPerSecond}, Unit{"h", 3600 * kNsPerSecond},
};

// Digits after the point that are looked at; more are refused rather than dropped.
constexpr int kMaxFractionDigits = 9;

struct Quantity {
  std::uint64_t whole = 0;
  std::uint64_t fraction = 0;        // in units of 1 / fraction_scale
  std::uint64_t fraction_scale = 1;  // 10^digits
  std::string unit;                  // lower case
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_space(char c) {
  return c == ' ' || c == '\t';
}
char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::unexpected<Error> bad(std::string_view text, std::string_view why) {
  return fail(ErrorCode::kInvalidArgument, "'" + std::string(text) + "' " + std::string(why));
}

// number := digits [ '.' digits ] spaces unit
Result<Quantity> parse_quantity(std::string_view text, std::string_view example) {
  std::string_view rest = text;
  while (!rest.empty() && is_space(rest.front())) rest.remove_prefix(1);
  while (!rest.empty() && is_space(rest.back())) rest.remove_suffix(1);
  if (rest.empty() || !is_digit(rest.front())) {
    return bad(text, "does not start with a number; write for example " + std::string(example));
  }
  Quantity q;
  for (; !rest.empty() && is_digit(rest.front()); rest.remove_prefix(1)) {
    if (__builtin_mul_overflow(q.whole, 10U, &q.whole) ||
        __builtin_add_overflow(q.whole, static_cast<std::uint64_t>(rest.front() - '0'), &q.whole)) {
      return bad(text, "is larger than 64 bits can hold");
    }
  }
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    int digits = 0;
    for (; !rest.empty() && is_digit(rest.front()); rest.remove_prefix(1)) {
      if (++digits > kMaxFractionDigits) return bad(text, "has more than 9 digits after the point");
      q.fraction = q.fraction * 10 + static_cast<std::uint64_t>(rest.front() - '0');
      q.fraction_scale *= 10;
    }
    if (digits == 0) return bad(text, "has no digit after the point");
  }
  while (!rest.empty() && is_space(rest.front())) rest.remove_prefix(1);
  for (const char c : rest) q.unit.push_back(lower(c));
  return q;
}

Result<std::uint64_t> scale(std::string_view text, const Quantity& q, std::uint64_t factor) {
  const unsigned __int128 total =
      static_cast<unsigned __int128>(q.whole) * factor +
      static_cast<unsigned __int128>(q.fraction) * factor / q.fraction_scale;
  if (total > ~std::uint64_t{0}) return bad(text, "is larger than 64 bits can hold");
  return static_cast<std::uint64_t>(total);
}

const Unit* find_unit(std::span<const Unit> units, std::string_view name) {
  for (const Unit& unit : units) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

// Three significant digits: 1.23, 12.3, 123 (and 1023 for byte units).
std::string three_digits(double value, const char* unit) {
  // Thresholds are where %.*f would round up to one digit more.
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  char text[48];
  std::snprintf(text, sizeof(text), "%.*f %s", decimals, value, unit);
  return text;
}

}  // namespace

Result<std::uint64_t> parse_bytes(std::string_view text) {
  const Result<Quantity> q = parse_quantity(text, "256MiB");
  if (!q) return std::unexpected(q.error());
  const Unit* unit = find_unit(kByteUnits, q->unit);
  if (unit == nullptr) {
    const bool decimal = q->unit == "kb" || q->unit == "mb" || q->unit == "gb" || q->unit == "tb";
    if (decimal) {
      return bad(text, "has an ambiguous unit; write KiB, MiB, GiB or TiB (powers of 1024)");
    }
    return bad(text, "has an unknown unit; write B, KiB, MiB, GiB or TiB");
  }
  if (unit->factor == 1 && q->fraction_scale > 1)
    return bad(text, "is not a whole number of bytes");
  return scale(text, *q, unit->factor);
}

Result<MonoNs> parse_duration(std::string_view text) {
  const Result<Quantity> q = parse_quantity(text, "250ms");
  if (!q) return std::unexpected(q.error());
  if (q->unit.empty() && q->whole == 0 && q->fraction == 0) return MonoNs{0};
  const Unit* unit = find_unit(kTimeUnits, q->unit);
  if (unit == nullptr) {
    return bad(text, q->unit.empty() ? "has no unit; write ns, us, ms, s, m or h"
                                     : "has an unknown unit; write ns, us, ms, s, m or h");
  }
  return scale(text, *q, unit->factor);
}

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < kKiB) return std::to_string(bytes) + " B";
  static constexpr std::array kNames = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t name = 0;
  while (value >= 1023.5 && name + 1 < kNames.size()) {  // 1023.5 would print as 1024
    value /= 1024;
    ++name;
  }
  return three_digits(value, kNames[name]);
}

std::string format_count(std::uint64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string format_duration_ns(MonoNs ns) {
  if (ns < kNsPerUs) return std::to_string(ns) + " ns";
  const double value = static_cast<double>(ns);
  if (value < 999.5 * kNsPerUs) return three_digits(value / kNsPerUs, "us");
  if (value < 999.5 * kNsPerMs) return three_digits(value / kNsPerMs, "ms");
  if (value < 99.95 * kNsPerSecond) return three_digits(value / kNsPerSecond, "s");
  const std::uint64_t seconds = (ns + kNsPerSecond / 2) / kNsPerSecond;
  char text[48];
  if (seconds < 3600) {
    std::snprintf(text, sizeof(text), "%u m %02u s", static_cast<unsigned>(seconds / 60),
                  static_cast<unsigned>(seconds % 60));
  } else {
    std::snprintf(text, sizeof(text), "%llu h %02u m",
                  static_cast<unsigned long long>(seconds / 3600),
                  static_cast<unsigned>(seconds % 3600 / 60));
  }
  return text;
}

}  // namespace orlop
