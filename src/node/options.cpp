// SPDX-License-Identifier: Apache-2.0
#include "node/options.h"

#include <toml++/toml.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <functional>
#include <sstream>

#include "base/bytes.h"
#include "base/check.h"
#include "base/units.h"
#include "eviction/policy.h"
#include "platform/runtime_dir.h"

namespace orlop::node {
namespace {

Result<bool> parse_switch(const std::string& text) {
  if (text == "on" || text == "true" || text == "1") return true;
  if (text == "off" || text == "false" || text == "0") return false;
  return fail(ErrorCode::kInvalidArgument, "\"" + text + "\" is neither on nor off");
}
std::string switch_text(bool on) {
  return on ? "on" : "off";
}

Result<std::vector<uid_t>> parse_uids(const std::string& text) {
  std::vector<uid_t> uids;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    uid_t uid = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), uid);
    if (error != std::errc{} || end != part.data() + part.size()) {
      return fail(ErrorCode::kInvalidArgument, "\"" + part + "\" is no user number");
    }
    uids.push_back(uid);
  }
  return uids;
}

Result<std::string> parse_policy(const std::string& text) {
  std::string known;
  for (const std::string_view name : policy_names()) {
    if (name == text) return text;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  return fail(ErrorCode::kInvalidArgument, "\"" + text + "\" is no policy; known: " + known);
}

// Takes a parsed value into a member, or passes the error on.
template <class T, class U>
Result<void> put(Result<T>&& value, U& member) {
  if (!value) return std::unexpected<Error>(std::move(value.error()));
  member = std::move(*value);
  return {};
}

using Set = std::function<Result<void>(NodeOptions&, const std::string&)>;
using Get = std::function<std::string(const NodeOptions&)>;
struct OptionRow {
  const char* key;
  const char* flag;
  const char* help;
  Set set;
  Get get;
};

OptionRow bytes_row(const char* key, const char* flag, const char* help,
                    std::function<std::uint64_t&(NodeOptions&)> member, const char* zero) {
  return {key, flag, help,
          [member](NodeOptions& o, const std::string& text) {
            return put(parse_bytes(text), member(o));
          },
          [member, zero](const NodeOptions& o) {
            const std::uint64_t bytes = member(const_cast<NodeOptions&>(o));
            return bytes == 0 ? std::string(zero) : format_bytes(bytes);
          }};
}
OptionRow duration_row(const char* key, const char* flag, const char* help,
                       std::function<MonoNs&(NodeOptions&)> member) {
  return {key, flag, help,
          [member](NodeOptions& o, const std::string& text) {
            return put(parse_duration(text), member(o));
          },
          [member](const NodeOptions& o) {
            return format_duration_ns(member(const_cast<NodeOptions&>(o)));
          }};
}
OptionRow switch_row(const char* key, const char* flag, const char* help,
                     std::function<bool&(NodeOptions&)> member) {
  return {
      key, flag, help,
      [member](NodeOptions& o, const std::string& text) {
        return put(parse_switch(text), member(o));
      },
      [member](const NodeOptions& o) { return switch_text(member(const_cast<NodeOptions&>(o))); }};
}

Result<void> set_huge(NodeOptions& o, const std::string& text) {
  if (text != "try" && text != "off") {
    return fail(ErrorCode::kInvalidArgument, "\"" + text + "\" is neither try nor off");
  }
  o.memory.huge = text == "try" ? HugePages::kTry : HugePages::kOff;
  return {};
}
std::string numa_text(const NodeOptions& o) {
  switch (o.memory.numa.kind) {
    case NumaPolicy::Kind::kDefault:
      return "default";
    case NumaPolicy::Kind::kInterleave:
      return "interleave";
    case NumaPolicy::Kind::kNode:
      return "node:" + std::to_string(o.memory.numa.node);
  }
  return {};
}
Result<void> set_spin(NodeOptions& o, const std::string& text) {
  if (text == "adaptive") {
    o.spin.reset();
    return {};
  }
  const auto ns = parse_duration(text);
  if (!ns) return std::unexpected<Error>(ns.error());
  o.spin = *ns;
  return {};
}
Result<void> set_log(NodeOptions& o, const std::string& text) {
  const auto level = log_level_from_name(text);
  if (!level) {
    return fail(ErrorCode::kInvalidArgument,
                "\"" + text + "\" is none of debug, info, warn, error, off");
  }
  o.log_level = *level;
  return {};
}
std::string uids_text(const NodeOptions& o) {
  std::string text;
  for (const uid_t uid : o.allow_uids) text += (text.empty() ? "" : ",") + std::to_string(uid);
  return text.empty() ? "own and root" : text;
}

std::vector<OptionRow> memory_rows() {
  return {
      bytes_row(
          "memory.capacity", "--capacity", "bytes of the value area (\"64GiB\")",
          [](NodeOptions& o) -> std::uint64_t& { return o.memory.capacity; }, "by payload"),
      bytes_row(
          "memory.payload.value_len", "--payload-value-len",
          "with --payload-bytes instead of --capacity: length of one value",
          [](NodeOptions& o) -> std::uint64_t& { return o.memory.payload_value_len; }, "-"),
      bytes_row(
          "memory.payload.bytes", "--payload-bytes",
          "bytes of values to hold, rounded up to whole slabs",
          [](NodeOptions& o) -> std::uint64_t& { return o.memory.payload_bytes; }, "-"),
      bytes_row(
          "memory.max_value_len", "--max-value-len", "longest value of any namespace",
          [](NodeOptions& o) -> std::uint64_t& { return o.memory.max_value_len; }, "-"),
      switch_row("memory.touch", "--touch",
                 "on | off: make all memory resident at start; off for benches and sparse use",
                 [](NodeOptions& o) -> bool& { return o.memory.touch; }),
      {"memory.huge", "--huge", "try | off: huge pages; what was got is shown by status", set_huge,
       [](const NodeOptions& o) {
         return std::string(o.memory.huge == HugePages::kTry ? "try" : "off");
       }},
      {"memory.numa", "--numa", "default | interleave | node:N",
       [](NodeOptions& o, const std::string& text) {
         return put(parse_numa_policy(text), o.memory.numa);
       },
       numa_text},
      duration_row("memory.wait", "--memory-wait",
                   "how long to wait for memory that others still hold",
                   [](NodeOptions& o) -> MonoNs& { return o.memory_wait; }),
  };
}

std::vector<OptionRow> node_rows() {
  return {
      {"node.socket", "--socket", "path of the Unix socket that clients connect to",
       [](NodeOptions& o, const std::string& text) -> Result<void> {
         o.socket = text;
         return {};
       },
       [](const NodeOptions& o) { return o.socket; }},
      {"node.admin", "--admin", "host:port (port 0: any), unix:/path, or off: metrics and status",
       [](NodeOptions& o, const std::string& text) -> Result<void> {
         o.admin = text;
         return {};
       },
       [](const NodeOptions& o) { return o.admin; }},
      {"node.allow_uids", "--allow-uids", "users (numbers, comma) that may attach, apart from ours",
       [](NodeOptions& o, const std::string& text) { return put(parse_uids(text), o.allow_uids); },
       uids_text},
      switch_row("node.unsafe_no_pidfd", "--unsafe-no-pidfd",
                 "on | off: serve clients whose death cannot be proved (foreign pid namespace)",
                 [](NodeOptions& o) -> bool& { return o.unsafe_no_pidfd; }),
      {"node.spin", "--spin", "adaptive, or how long the server looks before it sleeps", set_spin,
       [](const NodeOptions& o) {
         return o.spin ? format_duration_ns(*o.spin) : std::string("adaptive");
       }},
      duration_row("node.restart_backoff", "--restart-backoff", "delay before the second restart",
                   [](NodeOptions& o) -> MonoNs& { return o.backoff.first; }),
      duration_row("node.restart_backoff_most", "--restart-backoff-most", "longest such delay",
                   [](NodeOptions& o) -> MonoNs& { return o.backoff.most; }),
      duration_row("node.stop_grace", "--stop-grace", "time a stopping server gets",
                   [](NodeOptions& o) -> MonoNs& { return o.stop_grace; }),
      {"log.level", "--log-level", "debug | info | warn | error | off", set_log,
       [](const NodeOptions& o) { return std::string(to_string(o.log_level)); }},
  };
}

std::vector<OptionRow> cache_rows() {
  return {
      {"eviction.policy", "--policy", "which pages leave first",
       [](NodeOptions& o, const std::string& text) {
         return put(parse_policy(text), o.machine.policy);
       },
       [](const NodeOptions& o) { return o.machine.policy; }},
      bytes_row(
          "eviction.reserve", "--reserve", "free slots kept ahead of demand, in bytes",
          [](NodeOptions& o) -> std::uint64_t& { return o.machine.reserve_bytes; },
          "2 % of the value area"),
      bytes_row(
          "client.max_pinned", "--max-pinned", "bytes that one client may pin",
          [](NodeOptions& o) -> std::uint64_t& { return o.machine.max_pinned_bytes; },
          "25 % of the value area"),
      bytes_row(
          "client.max_prepared", "--max-prepared",
          "bytes that one client may reserve for puts under way",
          [](NodeOptions& o) -> std::uint64_t& { return o.machine.prepared_cap_bytes; },
          "25 % of the value area"),
  };
}

const std::vector<OptionRow>& rows() {
  static const std::vector<OptionRow> all = [] {
    std::vector<OptionRow> list = memory_rows();
    for (auto& part : {node_rows(), cache_rows()})
      list.insert(list.end(), part.begin(), part.end());
    return list;
  }();
  return all;
}

// Edits (insert, delete, replace) between two short words.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::string nearest_key(std::string_view key) {
  std::string best;
  std::size_t least = ~std::size_t{0};
  for (const OptionRow& row : rows()) {
    const std::size_t d = distance(key, row.key);
    if (d < least) {
      least = d;
      best = row.key;
    }
  }
  return best;
}

const OptionRow* row_of(std::string_view key) {
  for (const OptionRow& row : rows()) {
    if (key == row.key) return &row;
  }
  return nullptr;
}

std::string scalar_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* truth = node.as_boolean()) return truth->get() ? "on" : "off";
  return {};
}

// Flattens tables into dotted keys.
Result<void> read_table(const toml::table& table, const std::string& prefix,
                        std::map<std::string, std::string>& out) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    if (const auto* inner = node.as_table()) {
      const auto read = read_table(*inner, key + ".", out);
      if (!read) return read;
      continue;
    }
    if (row_of(key) == nullptr) {
      return fail(ErrorCode::kInvalidArgument,
                  "unknown key \"" + key + "\"; did you mean \"" + nearest_key(key) + "\"?");
    }
    const std::string text = scalar_text(node);
    if (text.empty()) {
      return fail(ErrorCode::kInvalidArgument,
                  "key \"" + key + "\" wants a text, a whole number or true/false");
    }
    out[key] = text;
  }
  return {};
}

Result<std::map<std::string, std::string>> read_file(const std::string& path) {
  std::map<std::string, std::string> out;
  try {
    const toml::table table = toml::parse_file(path);
    const auto read = read_table(table, "", out);
    if (!read) return fail(read.error().code, path + ": " + read.error().message);
  } catch (const toml::parse_error& error) {
    std::ostringstream text;
    text << path << ":" << error.source().begin.line << ": " << error.description();
    return fail(ErrorCode::kInvalidArgument, text.str());
  }
  return out;
}

Result<void> apply(NodeOptions& options, const std::map<std::string, std::string>& texts,
                   bool as_flag) {
  for (const auto& [key, text] : texts) {
    if (text.empty()) continue;
    const OptionRow* row = row_of(key);
    CHECK(row != nullptr, "keys come from the table");
    const auto set = row->set(options, text);
    if (!set) {
      return fail(set.error().code,
                  std::string(as_flag ? row->flag : row->key) + ": " + set.error().message);
    }
  }
  return {};
}

}  // namespace

void add_options(CLI::App& app, OptionTexts& texts) {
  app.add_option("--config", texts.config, "TOML file with the same options; flags win");
  for (const OptionRow& row : rows()) {
    app.add_option(row.flag, texts.by_key[row.key], std::string(row.help) + " [" + row.key + "]")
        ->take_last();  // so that a script can append what it wants otherwise
  }
}

Result<NodeOptions> resolve(const OptionTexts& texts) {
  NodeOptions options;
  if (!texts.config.empty()) {
    const auto file = read_file(texts.config);
    if (!file) return std::unexpected<Error>(file.error());
    const auto applied = apply(options, *file, false);
    if (!applied) return fail(applied.error().code, texts.config + ": " + applied.error().message);
  }
  const auto applied = apply(options, texts.by_key, true);
  if (!applied) return std::unexpected<Error>(applied.error());
  if (options.socket.empty()) {
    options.socket = default_socket_place(RuntimeEnvironment::current()).socket_path;
  }
  const auto geometry = runtime::geometry_of(options.memory);
  if (!geometry) return std::unexpected<Error>(geometry.error());
  return options;
}

std::vector<std::pair<std::string, std::string>> effective(const NodeOptions& options) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const OptionRow& row : rows()) out.emplace_back(row.key, row.get(options));
  return out;
}

}  // namespace orlop::node
