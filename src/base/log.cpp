// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

namespace orlop {
namespace {

constexpr std::array kLevels = {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn,
                                LogLevel::kError, LogLevel::kOff};

MonoNs monotonic_now() {
  return static_cast<MonoNs>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                 std::chrono::steady_clock::now().time_since_epoch())
                                 .count());
}

// Never destroyed: threads may log while static objects are destroyed.
struct Backend {
  std::atomic<LogLevel> level{LogLevel::kInfo};
  std::atomic<const char*> process{""};
  std::mutex mutex;  // guards sink and the sites' rate limits and list
  std::function<void(std::string_view)> sink;
  std::shared_ptr<spdlog::logger> stderr_logger;
  LogSite* listed = nullptr;

  Backend() {
    auto to_stderr = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    stderr_logger = std::make_shared<spdlog::logger>("orlop", std::move(to_stderr));
    stderr_logger->set_level(spdlog::level::trace);  // the level is ours
    stderr_logger->set_pattern("ts=%Y-%m-%dT%H:%M:%S.%fZ %v", spdlog::pattern_time_type::utc);
    stderr_logger->flush_on(spdlog::level::trace);
    const char* wanted = std::getenv("ORLOP_LOG");
    if (wanted == nullptr) return;
    if (const auto known = log_level_from_name(wanted)) {
      level.store(*known, std::memory_order_relaxed);
    } else {
      stderr_logger->warn("level=warn event=log_level_unknown env=ORLOP_LOG using=info");
    }
  }
};

Backend& backend() {
  static auto* const instance = new Backend;
  return *instance;
}

bool needs_quotes(std::string_view value) {
  if (value.empty()) return true;
  for (const char c : value) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '=' || c == '\\' || c == '\x7f') {
      return true;
    }
  }
  return false;
}

void append_value(std::string& line, std::string_view value) {
  if (!needs_quotes(value)) {
    line += value;
    return;
  }
  line += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      line += '\\';
      line += c;
    } else if (c == '\n') {
      line += "\\n";
    } else if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') {
      std::array<char, 8> hex{};
      std::snprintf(hex.data(), hex.size(), "\\x%02x", static_cast<unsigned char>(c));
      line += hex.data();
    } else {
      line += c;
    }
  }
  line += '"';
}

std::string line_of(LogLevel level, std::string_view event,
                    std::initializer_list<LogField> fields) {
  std::string line = "level=";
  line += to_string(level);
  const char* process = backend().process.load(std::memory_order_relaxed);
  if (process[0] != '\0') {
    line += " proc=";
    line += process;
  }
  line += " event=";
  line += event;
  for (const LogField& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    append_value(line, field.value);
  }
  return line;
}

// Requires backend().mutex.
void emit(std::string_view line) {
  Backend& to = backend();
  if (to.sink) {
    to.sink(line);
  } else {
    to.stderr_logger->info(spdlog::string_view_t(line.data(), line.size()));
  }
}

}  // namespace

// The list of call sites that have held lines back. Every member requires backend().mutex.
class LogSites {
 public:
  static bool admit(LogSite& site, MonoNs now) {
    if (site.limit_.admit(now)) return true;
    if (!site.listed_) {
      site.listed_ = true;
      site.next_ = backend().listed;
      backend().listed = &site;
    }
    return false;
  }

  static void report(MonoNs now) {
    LogSite** link = &backend().listed;
    while (*link != nullptr) {
      LogSite& site = **link;
      const std::uint64_t lines = site.limit_.take_suppressed(now);
      if (lines == 0) {
        link = &site.next_;
        continue;
      }
      *link = site.next_;
      site.listed_ = false;
      emit(line_of(site.level_, "log_suppressed", {{"of", site.event_}, {"lines", lines}}));
    }
  }
};

std::string_view to_string(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarn:
      return "warn";
    case LogLevel::kError:
      return "error";
    case LogLevel::kOff:
      return "off";
  }
  return "unknown";
}

std::optional<LogLevel> log_level_from_name(std::string_view name) {
  for (const LogLevel level : kLevels) {
    if (to_string(level) == name) return level;
  }
  return std::nullopt;
}

LogField::LogField(std::string_view field_key, double number) : key(field_key) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", number);
  value = text.data();
}

bool LogRateLimit::window_over(MonoNs now) const {
  return !started_ || now - window_start_ >= kNsPerSecond;
}

bool LogRateLimit::admit(MonoNs now) {
  if (window_over(now)) {
    started_ = true;
    window_start_ = now;
    written_ = 0;
  }
  if (written_ < limit_) {
    ++written_;
    return true;
  }
  ++suppressed_;
  return false;
}

std::uint64_t LogRateLimit::take_suppressed(MonoNs now) {
  if (!window_over(now)) return 0;
  const std::uint64_t lines = suppressed_;
  suppressed_ = 0;
  return lines;
}

void LogSite::write(std::initializer_list<LogField> fields) {
  write_at(monotonic_now(), fields);
}

void LogSite::write_at(MonoNs now, std::initializer_list<LogField> fields) {
  const std::lock_guard lock(backend().mutex);
  LogSites::report(now);  // before admit(): the count stands before the line that follows the gap
  if (LogSites::admit(*this, now)) emit(line_of(level_, event_, fields));
}

bool log_enabled(LogLevel level) {
  return level >= backend().level.load(std::memory_order_relaxed) && level != LogLevel::kOff;
}

void log_set_level(LogLevel level) {
  backend().level.store(level, std::memory_order_relaxed);
}

void log_set_process(const char* name) {
  backend().process.store(name, std::memory_order_relaxed);
}

void log_report_suppressed() {
  const std::lock_guard lock(backend().mutex);
  LogSites::report(monotonic_now());
}

void log_set_sink(std::function<void(std::string_view line)> sink) {
  const std::lock_guard lock(backend().mutex);
  backend().sink = std::move(sink);
}

}  // namespace orlop
