// SPDX-License-Identifier: Apache-2.0
#include "cli/key_text.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/units.h"

namespace orlop::cli {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<std::string> checked(std::string key) {
  if (key.empty() || key.size() > kMaxKeyBytes) {
    return fail(ErrorCode::kInvalidArgument, "a key has 1 to " + std::to_string(kMaxKeyBytes) +
                                                 " bytes, this one has " +
                                                 std::to_string(key.size()));
  }
  return key;
}

Result<std::string> key_of_line(std::string_view line) {
  constexpr std::string_view kText = "text:";
  return line.starts_with(kText) ? key_of_text(line.substr(kText.size())) : key_of_hex(line);
}

Result<std::string> read_all(std::FILE* file, const std::string& path) {
  std::string content;
  char part[65'536];
  while (const std::size_t read = std::fread(part, 1, sizeof part, file)) {
    content.append(part, read);
    if (content.size() > kMaxKeysFileBytes) {
      return fail(ErrorCode::kInvalidArgument,
                  path + " is larger than " + format_bytes(kMaxKeysFileBytes) + "; split it");
    }
  }
  if (std::ferror(file) != 0) {
    return fail(ErrorCode::kInvalidArgument, "cannot read " + path + ": " + std::strerror(errno));
  }
  return content;
}

}  // namespace

Result<std::string> key_of_hex(std::string_view hex) {
  if (hex.size() % 2 != 0) {
    return fail(ErrorCode::kInvalidArgument, "a key in hex has two digits a byte, this one has " +
                                                 std::to_string(hex.size()) + " digits");
  }
  std::string key;
  key.reserve(hex.size() / 2);
  for (std::size_t i = 0; i < hex.size(); ++i) {
    if (digit_of(hex[i]) < 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "character " + std::to_string(i + 1) +
                      " of the key is no hex digit; for a key that is a text use --text, in a file "
                      "begin the line with text:");
    }
    if (i % 2 == 1) key += static_cast<char>(digit_of(hex[i - 1]) << 4 | digit_of(hex[i]));
  }
  return checked(std::move(key));
}

Result<std::string> key_of_text(std::string_view text) {
  return checked(std::string(text));
}

Result<std::vector<std::string>> parse_keys(std::string_view content) {
  std::vector<std::string> keys;
  std::size_t number = 0;
  while (!content.empty()) {
    const std::size_t end = content.find('\n');
    std::string_view line = content.substr(0, end);
    content.remove_prefix(end == std::string_view::npos ? content.size() : end + 1);
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    auto key = key_of_line(line);
    if (!key) {
      return fail(key.error().code, "line " + std::to_string(number) + ": " + key.error().message);
    }
    if (keys.size() == kMaxKeysOfFile) {
      return fail(ErrorCode::kInvalidArgument,
                  "more than " + format_count(kMaxKeysOfFile) + " keys; split the file");
    }
    keys.push_back(std::move(*key));
  }
  return keys;
}

Result<std::vector<std::string>> read_keys(const std::string& path) {
  if (path == "-") {
    const auto content = read_all(stdin, "standard input");
    if (!content) return std::unexpected(content.error());
    return parse_keys(*content);
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (file == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "cannot open " + path + ": " + std::strerror(errno));
  }
  const auto content = read_all(file.get(), path);
  if (!content) return std::unexpected(content.error());
  return parse_keys(*content);
}

}  // namespace orlop::cli
