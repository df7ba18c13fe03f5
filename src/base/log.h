// SPDX-License-Identifier: Apache-2.0
// Structured log: one line an event, `key=value` fields, to stderr. Library orlop_log; the pure
// rooms do not link it.
//
//   LOG_INFO("client_attached", {"client", id.value}, {"pid", pid});
//   LOG_WARN("attach_refused", {"uid", uid}, {"reason", error.message});
//
// gives
//   ts=2025-01-31T12:00:00.123456Z level=info proc=server event=client_attached client=3 pid=711
//
// Guarantees:
//   * one line a cause: every call site writes at most kLogLinesPerSecond lines in a second; what
//   it
//     holds back is counted and told by one line `event=log_suppressed of=EVENT lines=N` later on;
//   * a line is written with one call, whole lines never mix between threads;
//   * a disabled level costs one relaxed load; the fields are not evaluated.
// Requires: `event` and keys are lower_case words and outlive the process (literals); no secrets
// and
//   no value bytes in fields.
// Thread: any. Not for signal handlers. A child of fork may log only after exec unless it was
//   forked by a process with one thread.
// Levels: environment ORLOP_LOG = debug | info | warn | error | off; info when unset.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"

namespace orlop {

enum class LogLevel : int { kDebug = 0, kInfo = 1, kWarn = 2, kError = 3, kOff = 4 };

// A burst of distinct lines that a person can still read; past that the count says more.
inline constexpr std::uint32_t kLogLinesPerSecond = 10;

std::string_view to_string(LogLevel level);
std::optional<LogLevel> log_level_from_name(std::string_view name);

// One `key=value`. Text is quoted and escaped where needed, at write time.
struct LogField {
  LogField(std::string_view field_key, std::string_view text) : key(field_key), value(text) {}
  LogField(std::string_view field_key, const char* text) : key(field_key), value(text) {}
  LogField(std::string_view field_key, const std::string& text) : key(field_key), value(text) {}
  LogField(std::string_view field_key, bool truth)
      : key(field_key), value(truth ? "true" : "false") {}
  LogField(std::string_view field_key, double number);
  template <std::integral T>
  LogField(std::string_view field_key, T number) : key(field_key), value(std::to_string(number)) {}
  template <class Tag, class T>
  LogField(std::string_view field_key, Id<Tag, T> id) : LogField(field_key, id.value) {}

  std::string_view key;
  std::string value;
};

// How many lines one cause may write. Pure: time is given. Windows of one second start with the
// first line after the last window ended.
class LogRateLimit {
 public:
  explicit constexpr LogRateLimit(std::uint32_t lines_per_second = kLogLinesPerSecond)
      : limit_(lines_per_second) {}

  // True: write the line. False: counted as suppressed.
  bool admit(MonoNs now);
  // Lines held back in windows that have ended at `now`, 0 if none; resets the count.
  std::uint64_t take_suppressed(MonoNs now);

 private:
  bool window_over(MonoNs now) const;

  std::uint32_t limit_;
  std::uint32_t written_ = 0;
  bool started_ = false;
  MonoNs window_start_ = 0;
  std::uint64_t suppressed_ = 0;
};

// Identity and rate limit of one call site; made by the macros, one static object each.
class LogSite {
 public:
  constexpr LogSite(LogLevel level, const char* event) : level_(level), event_(event) {}
  LogSite(const LogSite&) = delete;
  LogSite& operator=(const LogSite&) = delete;

  void write(std::initializer_list<LogField> fields);
  // The same at a given time, for tests.
  void write_at(MonoNs now, std::initializer_list<LogField> fields);

 private:
  friend class LogSites;
  LogLevel level_;
  const char* event_;
  LogRateLimit limit_;
  bool listed_ = false;  // in the list of sites that hold lines back
  LogSite* next_ = nullptr;
};

bool log_enabled(LogLevel level);
void log_set_level(LogLevel level);
// `proc=NAME` in every line: which of our processes speaks. NAME: a literal.
void log_set_process(const char* name);
// Writes the counts of held-back lines whose second is over. Drivers call it from their ticks; each
// written line does it too.
void log_report_suppressed();
// Lines (without newline and without ts) go to `sink` instead of stderr; nullptr: back to stderr.
// For tests. The sink must not log.
void log_set_sink(std::function<void(std::string_view line)> sink);

}  // namespace orlop

#define ORLOP_LOG_AT(level, event, ...)                      \
  do {                                                       \
    if (::orlop::log_enabled(level)) {                       \
      static constinit ::orlop::LogSite site_(level, event); \
      site_.write({__VA_ARGS__});                            \
    }                                                        \
  } while (false)

#define LOG_DEBUG(...) ORLOP_LOG_AT(::orlop::LogLevel::kDebug, __VA_ARGS__)
#define LOG_INFO(...) ORLOP_LOG_AT(::orlop::LogLevel::kInfo, __VA_ARGS__)
#define LOG_WARN(...) ORLOP_LOG_AT(::orlop::LogLevel::kWarn, __VA_ARGS__)
#define LOG_ERROR(...) ORLOP_LOG_AT(::orlop::LogLevel::kError, __VA_ARGS__)
