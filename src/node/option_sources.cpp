// SPDX-License-Identifier: Apache-2.0
#include "node/option_sources.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <utility>

#include "node/kept_configuration.h"
#include "node/nearest_name.h"
#include "node/option_checks.h"
#include "node/option_file.h"
#include "platform/runtime_dir.h"

namespace orlop::node {
namespace {

constexpr std::string_view kPrefix = "ORLOP_";
constexpr const char* kConfigVariable = "ORLOP_CONFIG";

// Of the copy engine, which clients have as well; of `orlop doctor vllm`; of ./dev, the benches and
// the tests. A star at the end stands for anything.
constexpr std::array kForeign = {
    std::string_view("ORLOP_COPY"),          std::string_view("ORLOP_COPY_STREAM_BYTES"),
    std::string_view("ORLOP_JOBS"),          std::string_view("ORLOP_TRACES"),
    std::string_view("ORLOP_ATTACH_ROUNDS"), std::string_view("ORLOP_EXPLORE_*"),
    std::string_view("ORLOP_TIDY_*"),        std::string_view("ORLOP_TEST_*"),
    std::string_view("ORLOP_GPU_TESTS"),     std::string_view("ORLOP_BENCH_*"),
    std::string_view("ORLOP_PYTHON")};

bool matches(std::string_view name, std::string_view pattern) {
  if (!pattern.ends_with('*')) return name == pattern;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

// Kubernetes sets these for every service whose name begins with "orlop".
bool is_service_link(std::string_view name) {
  return name == "ORLOP_PORT" || name.starts_with("ORLOP_PORT_") || name.ends_with("_PORT") ||
         name.find("_SERVICE_HOST") != std::string_view::npos ||
         name.find("_SERVICE_PORT") != std::string_view::npos ||
         name.find("_PORT_") != std::string_view::npos;
}

// Messages quote what was written, and go to terminals and logs, a line each.
void mask_controls(std::string& text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
}

class Settling {
 public:
  Settings take(const OptionTexts& texts) {
    settings_.file = configuration_file(texts);
    if (texts.config && texts.config->empty()) {
      settings_.mistakes.emplace_back("--config: the path is empty; name a file");
    }
    if (!settings_.file.empty()) {
      take_file(settings_.file,
                texts.config_copy ? configuration_path(*texts.config_copy) : settings_.file);
    }
    take_environment(texts.environment);
    for (const auto& [key, text] : texts.by_key) {
      const OptionRow& row = *find_option(key);
      apply({&row, text, "flag " + row.flag, row.flag});
    }
    return finish();
  }

  Settings take_only(const std::string& path) {
    settings_.file = path;
    take_file(path, path);
    return finish();
  }

 private:
  void take_file(const std::string& path, const std::string& read_from) {
    OptionFile file = read_option_file(path, read_from);
    for (std::string& one : file.mistakes) settings_.mistakes.push_back(std::move(one));
    for (const GivenText& given : file.given) apply(given);
  }

  void take_environment(const std::map<std::string, std::string>& variables) {
    for (const auto& [name, text] : variables) {
      if (text.empty() || name == kConfigVariable || is_foreign_variable(name)) continue;
      if (const OptionRow* row = find_by_variable(name)) {
        apply({row, text, "environment " + name, name});
        continue;
      }
      std::vector<std::string> known = {kConfigVariable};
      for (const OptionRow& row : option_rows()) known.push_back(row.variable);
      settings_.mistakes.push_back("unknown environment variable " + name +
                                   nearest_hint(name, known, "orlop config docs"));
    }
  }

  void apply(const GivenText& given) {
    const auto set = given.row->set(settings_.options, given.text);
    if (!set) settings_.mistakes.push_back(given.blames + ": " + set.error().message);
    settings_.origins[given.row->key] = given.origin;
  }

  // Values are compared with each other only when each is good: no mistake that follows from
  // another one.
  Settings finish() {
    if (settings_.options.socket.empty()) {
      RuntimeEnvironment environment = RuntimeEnvironment::current();
      environment.orlop_socket.reset();  // it is one of the options, and was looked at
      settings_.options.socket = default_socket_place(environment).socket_path;
    }
    if (settings_.mistakes.empty()) check_together(settings_);
    for (std::string& mistake : settings_.mistakes) mask_controls(mistake);
    return std::move(settings_);
  }

  Settings settings_;
};

std::string flag_help(const OptionRow& row) {
  return row.help + "\ndefault: " + row.default_text() + "\n" + row.limits_text() + "\n" + row.key +
         ", " + row.variable;
}

std::string value_name(OptionType type) {
  switch (type) {
    case OptionType::kBytes:
      return "SIZE";
    case OptionType::kDuration:
      return "TIME";
    case OptionType::kSwitch:
      return "on|off";
    case OptionType::kChoice:
      return "WORD";
    case OptionType::kText:
      return "TEXT";
    case OptionType::kUsers:
      return "NUMBERS";
  }
  return {};
}

}  // namespace

std::string configuration_file(const OptionTexts& texts) {
  if (texts.config) return *texts.config;
  const auto found = texts.environment.find(kConfigVariable);
  return found == texts.environment.end() ? std::string() : found->second;
}

void add_options(CLI::App& app, OptionTexts& texts) {
  const auto keep_last = [](auto& into) {
    return [&into](const CLI::results_t& said) {
      into = said.back();
      return true;
    };
  };
  app.add_option("--config", keep_last(texts.config),
                 "TOML file with the same options; environment and flags win\ndefault: "
                 "$ORLOP_CONFIG, else none")
      ->type_name("FILE")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  for (const OptionRow& row : option_rows()) {
    // The last one counts, so that a script can append what it wants otherwise.
    app.add_option(
           row.flag,
           [&texts, key = row.key](const CLI::results_t& said) {
             texts.by_key[key] = said.back();
             return true;
           },
           flag_help(row))
        ->type_name(value_name(row.type))
        ->group("Options of group " + row.group())
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

std::map<std::string, std::string> orlop_environment() {
  std::map<std::string, std::string> found;
  for (char** one = ::environ; one != nullptr && *one != nullptr; ++one) {
    const std::string_view entry = *one;
    const std::size_t equals = entry.find('=');
    if (!entry.starts_with(kPrefix) || equals == std::string_view::npos) continue;
    found.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return found;
}

bool is_foreign_variable(std::string_view name) {
  return is_service_link(name) || std::ranges::any_of(kForeign, [name](std::string_view pattern) {
           return matches(name, pattern);
         });
}

std::vector<std::string> foreign_variables() {
  return {kForeign.begin(), kForeign.end()};
}

std::string Settings::origin(const std::string& key) const {
  const auto found = origins.find(key);
  return found == origins.end() ? "default" : found->second;
}

bool Settings::sized() const {
  return options.memory.capacity != 0 ||
         (options.memory.payload_value_len != 0 && options.memory.payload_bytes != 0);
}

Error Settings::error() const {
  std::string text;
  for (std::size_t i = 0; i < std::min(mistakes.size(), kMaxShownMistakes); ++i) {
    text += (i == 0 ? "" : "\n") + mistakes[i];
  }
  if (mistakes.size() > kMaxShownMistakes) {
    text += "\nand " + std::to_string(mistakes.size() - kMaxShownMistakes) + " more mistakes";
  }
  return {ErrorCode::kInvalidArgument, text};
}

Settings settle(const OptionTexts& texts) {
  return Settling().take(texts);
}

Settings settle_file(const std::string& path) {
  return Settling().take_only(path);
}

Result<NodeOptions> resolve(const OptionTexts& texts) {
  Settings settings = settle(texts);
  if (settings.mistakes.empty() && !settings.sized()) {
    settings.mistakes.emplace_back(
        "memory.capacity is not given; write --capacity 64GiB, set ORLOP_MEMORY_CAPACITY, or give "
        "memory.payload.value_len and memory.payload.bytes");
  }
  if (!settings.mistakes.empty()) return std::unexpected<Error>(settings.error());
  return std::move(settings.options);
}

}  // namespace orlop::node
