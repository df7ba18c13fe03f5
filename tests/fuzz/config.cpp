// SPDX-License-Identifier: Apache-2.0
// Contract: a node's configuration: TOML file, environment, flags (any texts).
//   * Every mistake is a line of words, no control characters; a node is not started with one.
//   * Without mistakes every option that was given can be printed, and what was printed means the
//     same: as a flag, and in a file.
//   * A flag wins over the environment, the environment over the file.
//
// Input: the file; a line "=====" ; then lines NAME=text (environment, if it begins with ORLOP_)
// and key=text (flag).
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "fuzz_target.h"
#include "input.h"
#include "node/option_sources.h"
#include "platform/file_descriptor.h"

namespace orlop::fuzz {
namespace {

using namespace node;

constexpr std::string_view kEndOfFile = "=====\n";

// A file in memory that is written anew for every input.
int file_with(std::string_view text) {
  static const int file = ::memfd_create("orlop-fuzz", MFD_CLOEXEC);
  CHECK(file >= 0 && ::ftruncate(file, 0) == 0);
  CHECK(::pwrite(file, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  return file;
}

void take_lines(std::string_view text, OptionTexts& texts) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string line(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = line.substr(0, equals), value = line.substr(equals + 1);
    // Another file would be one of this machine.
    if (name.starts_with("ORLOP_") && name != "ORLOP_CONFIG") texts.environment[name] = value;
    if (find_option(name) != nullptr) texts.by_key[name] = value;
  }
}

OptionTexts texts_of(std::string_view input) {
  const std::size_t at = input.find(kEndOfFile);
  OptionTexts texts;
  texts.config = "fuzz.toml";
  texts.config_copy = file_with(input.substr(0, at));
  if (at != std::string_view::npos) take_lines(input.substr(at + kEndOfFile.size()), texts);
  return texts;
}

void check_mistakes(const Settings& settings) {
  for (const std::string& mistake : settings.mistakes) {
    CHECK(!mistake.empty());
    for (const char c : mistake)
      CHECK(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "words for a terminal");
  }
  const std::string all = settings.error().message;
  CHECK(static_cast<std::size_t>(std::ranges::count(all, '\n')) <= kMaxShownMistakes + 1);
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// What was given, printed, as flags or as a file.
Settings said_again(const Settings& settings, bool in_file) {
  OptionTexts texts;
  std::string file;
  for (const OptionRow& row : option_rows()) {
    if (!settings.origins.contains(row.key)) continue;
    const std::string text = row.get(settings.options);
    if (text == row.unset) continue;
    // A path may be any bytes, a TOML file is UTF-8.
    if (in_file && std::ranges::any_of(text, [](char c) { return (c & 0x80) != 0; })) continue;
    if (in_file) {
      file += row.key + " = " + quoted(text) + "\n";
    } else {
      texts.by_key[row.key] = text;
    }
  }
  // A file with nothing in it is a mistake.
  if (file.empty()) return settle(texts);
  texts.config = "again.toml";
  texts.config_copy = file_with(file);
  return settle(texts);
}

}  // namespace

void run_one(std::span<const std::byte> input) {
  const OptionTexts texts = texts_of(as_text(input));
  const Settings settings = settle(texts);
  CHECK(!settings.options.socket.empty());
  check_mistakes(settings);
  const auto resolved = resolve(texts);
  CHECK(resolved.has_value() == (settings.mistakes.empty() && settings.sized()));
  if (!settings.mistakes.empty()) return;
  for (const auto& [key, text] : texts.by_key)
    CHECK(settings.origin(key).starts_with("flag"), "a flag wins");
  for (const bool in_file : {false, true}) {
    const Settings again = said_again(settings, in_file);
    for (const std::string& mistake : again.mistakes) CHECK(false, mistake.c_str());
    for (const OptionRow& row : option_rows()) {
      if (!settings.origins.contains(row.key)) continue;
      if (again.origins.contains(row.key))
        CHECK(row.get(again.options) == row.get(settings.options), row.key.c_str());
    }
  }
}

std::vector<Seed> make_seeds() {
  std::string examples, flags, environment;
  for (const OptionRow& row : option_rows()) {
    if (row.example.empty()) continue;
    examples += row.key + " = " + quoted(row.example) + "\n";
    flags += row.key + "=" + row.example + "\n";
    environment += row.variable + "=" + row.example + "\n";
  }
  return {
      text_seed("examples", examples),
      text_seed("flags", std::string(kEndOfFile) + flags),
      text_seed("environment", std::string(kEndOfFile) + environment),
      text_seed("tables",
                "[memory]\ncapacity = \"64GiB\"\ntouch = false\n[node]\nallow_uids = [1000, 7]\n"
                "[restart]\nbackoff = { first = \"1ms\" }\n"),
      text_seed("payload", "memory.payload = {value_len = \"4608KiB\", bytes = \"100GiB\"}\n" +
                               std::string(kEndOfFile) + "ORLOP_LOG=debug\nnode.socket=/tmp/s\n"),
      text_seed("mistakes",
                "memory.capcity = \"1GiB\"\nmemory.capacity = 7\nnode = 1\nx = 1979-05-27\n"),
      text_seed("not-toml", "memory = [1, 2\n"),
      text_seed("units", std::string(kEndOfFile) +
                             "memory.capacity=1.5 GiB\nmemory.max_value_len=64K\n"
                             "ORLOP_MEMORY_CAPACITY=10MB\nORLOP_ADMIN=0.0.0.0:1\n")};
}

}  // namespace orlop::fuzz
