// SPDX-License-Identifier: Apache-2.0
#include "node/option_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "node/nearest_name.h"
#include "platform/small_file.h"

namespace orlop::node {
namespace {

std::string system_words(int error) {
  return std::generic_category().message(error);
}

std::string number_text(const toml::node& node) {
  std::ostringstream text;
  node.visit([&text](const auto& one) {
    if constexpr (toml::is_value<decltype(one)>) text << one.get();
  });
  return text.str();
}

// For messages: what somebody wrote there.
std::string described(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::boolean:
      return node.as_boolean()->get() ? "true" : "false";
    case toml::node_type::integer:
    case toml::node_type::floating_point:
      return "the number " + number_text(node);
    case toml::node_type::string:
      return "the text '" + node.as_string()->get() + "'";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

std::string wanted(const OptionRow& row) {
  switch (row.type) {
    case OptionType::kSwitch:
      return "wants true or false";
    case OptionType::kUsers:
      return "wants a list of user numbers such as [1000, 1001]";
    default:
      return "wants a text such as \"" + row.example + "\"";
  }
}

std::optional<std::string> users_of(const toml::array& list) {
  std::string text;
  for (const toml::node& one : list) {
    if (!one.is_integer()) return std::nullopt;
    text += (text.empty() ? "" : ",") + number_text(one);
  }
  return text;
}

// Nothing when the node is of a type that this option never has. A bare number is passed on to
// sizes and durations, whose parsers say which units there are.
std::optional<std::string> text_of(const toml::node& node, OptionType type) {
  if (const auto* text = node.as_string()) return text->get();
  switch (type) {
    case OptionType::kSwitch:
      if (node.is_boolean()) return switch_text(node.as_boolean()->get());
      return std::nullopt;
    case OptionType::kBytes:
    case OptionType::kDuration:
      if (node.is_integer()) return number_text(node);
      return std::nullopt;
    case OptionType::kUsers:
      if (node.is_integer()) return number_text(node);
      if (const auto* list = node.as_array()) return users_of(*list);
      return std::nullopt;
    case OptionType::kChoice:
    case OptionType::kText:
      return std::nullopt;
  }
  return std::nullopt;
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  void read(const toml::table& table, const std::string& prefix) {
    for (const auto& [name, node] : table) {
      const std::string key = prefix + std::string(name.str());
      if (node.is_table() && is_option_group(key)) {
        read(*node.as_table(), key + ".");
        continue;
      }
      const std::string at = path_ + ":" + std::to_string(node.source().begin.line);
      if (const OptionRow* row = find_option(key)) {
        take(*row, node, at);
      } else if (is_option_group(key)) {
        mistake(at, key + " is a table of options and cannot be " + described(node) + "; write [" +
                        key + "] and its options below");
      } else {
        mistake(at, unknown(key, node));
      }
    }
  }

  OptionFile result() {
    // Tables are walked by name; people read from top to bottom.
    std::ranges::sort(mistakes_, {},
                      [](const Mistake& one) { return std::tie(one.line, one.text); });
    for (Mistake& one : mistakes_) file_.mistakes.push_back(std::move(one.text));
    return std::move(file_);
  }

 private:
  struct Mistake {
    std::uint64_t line;
    std::string text;
  };

  void mistake(const std::string& at, const std::string& what) {
    mistakes_.push_back({std::stoull(at.substr(path_.size() + 1)), at + ": " + what});
  }

  void take(const OptionRow& row, const toml::node& node, const std::string& at) {
    auto text = text_of(node, row.type);
    if (!text) return mistake(at, row.key + " " + wanted(row) + ", not " + described(node));
    file_.given.push_back({&row, std::move(*text), at, at + ": " + row.key});
  }

  static std::string unknown(const std::string& key, const toml::node& node) {
    std::vector<std::string> known;
    if (node.is_table()) {
      for (const OptionRow& row : option_rows()) {
        if (known.empty() || known.back() != row.group()) known.push_back(row.group());
      }
      return "unknown table [" + key + "]" + nearest_hint(key, known, "orlop config docs");
    }
    for (const OptionRow& row : option_rows()) known.push_back(row.key);
    return "unknown key \"" + key + "\"" + nearest_hint(key, known, "orlop config docs");
  }

  const std::string& path_;
  OptionFile file_;
  std::vector<Mistake> mistakes_;
};

// Empty, or why the file is not even looked into.
std::string unfit(const std::string& path, const std::string& read_from) {
  struct stat info{};
  if (::stat(read_from.c_str(), &info) != 0) {
    return path + ": cannot be read: " + system_words(errno) + "; check the path";
  }
  if (S_ISDIR(info.st_mode)) {
    return path + ": is a folder; name the file in it, for example " + path + "/orlop.toml";
  }
  if (!S_ISREG(info.st_mode)) {
    return path + ": is no regular file, and a reload reads it again; write a file";
  }
  if (static_cast<std::uint64_t>(info.st_size) > kMaxOptionFileBytes) {
    return path + ": has " + std::to_string(info.st_size) + " bytes; a configuration has at most " +
           std::to_string(kMaxOptionFileBytes);
  }
  return {};
}

std::string syntax_mistake(const std::string& path, const toml::parse_error& error) {
  const std::string place = path + ":" + std::to_string(error.source().begin.line) + ": ";
  const std::string_view what = error.description();
  // Its words for a key that is there twice speak of a redefinition of a type.
  const std::size_t again = what.find("redefine existing");
  const std::size_t open = what.find('\'', again), close = what.rfind('\'');
  if (again != std::string_view::npos && open < close) {
    return place + std::string(what.substr(open + 1, close - open - 1)) +
           " is set a second time; keep one of the two";
  }
  return place + "not TOML: " + std::string(what) +
         "; lines are [group], key = \"text\" or # comment";
}

}  // namespace

OptionFile read_option_file(const std::string& path, const std::string& read_from) {
  OptionFile failed;
  if (auto reason = unfit(path, read_from); !reason.empty()) {
    failed.mistakes.push_back(std::move(reason));
    return failed;
  }
  const auto text = read_text_file(read_from, kMaxOptionFileBytes);
  if (!text) {
    failed.mistakes.push_back(path + ": " + text.error().message);
    return failed;
  }
  try {
    const toml::table table = toml::parse(*text, path);
    if (table.empty()) {
      failed.mistakes.push_back(path +
                                ": sets nothing; write at least memory.capacity (`orlop "
                                "config sample` prints a file), or do not name it");
      return failed;
    }
    Reader reader(path);
    reader.read(table, "");
    return reader.result();
  } catch (const toml::parse_error& error) {
    failed.mistakes.push_back(syntax_mistake(path, error));
    return failed;
  }
}

}  // namespace orlop::node
