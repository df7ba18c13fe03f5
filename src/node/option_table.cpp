// SPDX-License-Identifier: Apache-2.0
#include "node/option_table.h"

#include <algorithm>
#include <string_view>

#include "base/bytes.h"
#include "base/log.h"
#include "eviction/policy.h"
#include "node/admin_address.h"
#include "platform/unix_socket.h"

namespace orlop::node {
namespace {

// Below the 2^32 slots of 4 KiB that a segment can count.
constexpr std::uint64_t kMostMemory = 15 * 1024 * kGiB;
constexpr OptionRange kMemoryRange = {segment::kMinSlotBytes, kMostMemory};
constexpr OptionRange kValueRange = {1, segment::kMaxSlabBytes};
constexpr OptionRange kBackoffRange = {kNsPerMs, 3600 * kNsPerSecond};
// Longer looking than sleeping and waking could ever cost.
constexpr OptionRange kSpinRange = {0, 10 * kNsPerMs};

struct Names {
  const char* key;
  const char* flag;
  const char* variable = nullptr;  // nullptr: made from the key
};

// Takes a parsed value into a member, or passes the error on.
template <class T, class U>
Result<void> put(Result<T> value, U& member) {
  if (!value) return std::unexpected<Error>(std::move(value.error()));
  member = std::move(*value);
  return {};
}

OptionRow of_keeper(OptionRow one) {
  one.of_keeper = true;
  return one;
}

OptionRow row(Names names, OptionType type, const char* example, const char* help) {
  OptionRow made;
  made.key = names.key;
  made.flag = names.flag;
  made.variable = names.variable != nullptr ? names.variable : variable_of_key(names.key);
  made.type = type;
  made.example = example;
  made.help = help;
  return made;
}

// 0 in the member means that nothing is set.
template <class Member>
OptionRow bytes_row(Names names, OptionRange range, const char* unset, const char* example,
                    const char* help, Member member) {
  OptionRow made = row(names, OptionType::kBytes, example, help);
  made.range = range;
  made.unset = unset;
  made.set = [member, range](NodeOptions& o, const std::string& text) {
    return put(parse_size(text, range), member(o));
  };
  made.get = [member, word = made.unset](const NodeOptions& o) {
    return member(o) == 0 ? word : exact_bytes(member(o));
  };
  return made;
}

template <class Member>
OptionRow duration_row(Names names, OptionRange range, const char* example, const char* help,
                       Member member) {
  OptionRow made = row(names, OptionType::kDuration, example, help);
  made.range = range;
  made.set = [member, range](NodeOptions& o, const std::string& text) {
    return put(parse_time(text, range), member(o));
  };
  made.get = [member](const NodeOptions& o) { return exact_duration(member(o)); };
  return made;
}

template <class Member>
OptionRow switch_row(Names names, const char* example, const char* help, Member member) {
  OptionRow made = row(names, OptionType::kSwitch, example, help);
  made.choices = {"on", "off"};
  made.set = [member](NodeOptions& o, const std::string& text) {
    return put(parse_switch(text), member(o));
  };
  made.get = [member](const NodeOptions& o) { return switch_text(member(o)); };
  return made;
}

OptionRow huge_row() {
  OptionRow made = row({"memory.huge", "--huge"}, OptionType::kChoice, "try",
                       "huge pages; what was got is shown by `orlop status`");
  made.choices = {"try", "off"};
  made.set = [choices = made.choices](NodeOptions& o, const std::string& text) -> Result<void> {
    const auto word = parse_choice(text, choices);
    if (!word) return std::unexpected<Error>(word.error());
    o.memory.huge = *word == "try" ? HugePages::kTry : HugePages::kOff;
    return {};
  };
  made.get = [](const NodeOptions& o) {
    return std::string(o.memory.huge == HugePages::kTry ? "try" : "off");
  };
  return made;
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

OptionRow numa_row() {
  OptionRow made = row({"memory.numa", "--numa"}, OptionType::kChoice, "interleave",
                       "which memory nodes the value area lies on");
  made.choices = {"default", "interleave", "node:N (N up to " + std::to_string(kMaxNumaNode) + ")"};
  made.set = [](NodeOptions& o, const std::string& text) {
    return put(parse_numa_policy(text), o.memory.numa);
  };
  made.get = numa_text;
  return made;
}

OptionRow socket_row() {
  OptionRow made = row({"node.socket", "--socket", "ORLOP_SOCKET"}, OptionType::kText,
                       "/run/orlop/orlop.sock", "path of the Unix socket that clients connect to");
  made.range = {1, kMaxSocketPathBytes};
  made.unset =
      "root: /run/orlop/orlop.sock; others: $XDG_RUNTIME_DIR/orlop/orlop.sock, "
      "else /tmp/orlop-UID/orlop.sock";
  made.set = [range = made.range](NodeOptions& o, const std::string& text) {
    return put(parse_text(text, range), o.socket);
  };
  made.get = [unset = made.unset](const NodeOptions& o) {
    return o.socket.empty() ? unset : o.socket;
  };
  return made;
}

OptionRow admin_row() {
  OptionRow made = row({"node.admin", "--admin"}, OptionType::kText, "127.0.0.1:9464",
                       "address of metrics and status: loopback:port (port 0: any free one), "
                       "unix:/path, or off");
  made.range = {1, kMaxSocketPathBytes + std::string_view("unix:").size()};
  made.set = [range = made.range](NodeOptions& o, const std::string& text) -> Result<void> {
    auto checked = parse_text(text, range);
    if (!checked) return std::unexpected<Error>(checked.error());
    const auto address = parse_admin_address(*checked);
    if (!address) return std::unexpected<Error>(address.error());
    o.admin = std::move(*checked);
    return {};
  };
  made.get = [](const NodeOptions& o) { return o.admin; };
  return made;
}

OptionRow users_row() {
  OptionRow made = row({"node.allow_uids", "--allow-uids"}, OptionType::kUsers, "1000,1001",
                       "users that may attach, apart from the node's own and root");
  made.range = {0, 64};  // looked through at every attach
  made.unset = "own user and root";
  made.set = [range = made.range](NodeOptions& o, const std::string& text) {
    return put(parse_users(text, range), o.allow_uids);
  };
  made.get = [unset = made.unset](const NodeOptions& o) {
    return o.allow_uids.empty() ? unset : users_text(o.allow_uids);
  };
  return made;
}

OptionRow spin_row() {
  OptionRow made = row({"node.spin", "--spin"}, OptionType::kDuration, "adaptive",
                       "how long the server looks for work before it sleeps");
  made.range = kSpinRange;
  made.choices = {"adaptive"};
  made.set = [](NodeOptions& o, const std::string& text) -> Result<void> {
    if (text != "adaptive") return put(parse_time(text, kSpinRange), o.spin);
    o.spin.reset();
    return {};
  };
  made.get = [](const NodeOptions& o) {
    return o.spin ? exact_duration(*o.spin) : std::string("adaptive");
  };
  return made;
}

OptionRow log_row() {
  OptionRow made = row({"log.level", "--log-level", "ORLOP_LOG"}, OptionType::kChoice, "info",
                       "least important lines that are written");
  made.choices = {"debug", "info", "warn", "error", "off"};
  made.set = [choices = made.choices](NodeOptions& o, const std::string& text) -> Result<void> {
    const auto word = parse_choice(text, choices);
    if (!word) return std::unexpected<Error>(word.error());
    o.log_level = *log_level_from_name(*word);
    return {};
  };
  made.get = [](const NodeOptions& o) { return std::string(to_string(o.log_level)); };
  return made;
}

OptionRow policy_row() {
  OptionRow made =
      row({"eviction.policy", "--policy"}, OptionType::kChoice, "lru", "which pages leave first");
  for (const std::string_view name : policy_names()) made.choices.emplace_back(name);
  made.set = [choices = made.choices](NodeOptions& o, const std::string& text) {
    return put(parse_choice(text, choices), o.machine.policy);
  };
  made.get = [](const NodeOptions& o) { return o.machine.policy; };
  return made;
}

void add_memory_rows(std::vector<OptionRow>& all) {
  all.push_back(bytes_row({"memory.capacity", "--capacity"}, kMemoryRange,
                          "required, or the two of memory.payload", "1GiB",
                          "size of the value area, rounded down to whole slabs",
                          [](auto& o) -> auto& { return o.memory.capacity; }));
  all.push_back(bytes_row({"memory.payload.value_len", "--payload-value-len"}, kValueRange,
                          "not set", "4608KiB", "instead of memory.capacity: length of one value",
                          [](auto& o) -> auto& { return o.memory.payload_value_len; }));
  all.push_back(bytes_row({"memory.payload.bytes", "--payload-bytes"}, kMemoryRange, "not set",
                          "64GiB",
                          "instead of memory.capacity: bytes of such values to hold, "
                          "rounded up to whole slabs",
                          [](auto& o) -> auto& { return o.memory.payload_bytes; }));
  all.push_back(bytes_row({"memory.max_value_len", "--max-value-len"}, kValueRange, "not set",
                          "8MiB", "longest value of any namespace; a slab is at least as large",
                          [](auto& o) -> auto& { return o.memory.max_value_len; }));
  all.push_back(switch_row({"memory.touch", "--touch"}, "on",
                           "make all memory resident at the start; off for benches and sparse use",
                           [](auto& o) -> auto& { return o.memory.touch; }));
  all.push_back(huge_row());
  all.push_back(numa_row());
  all.push_back(duration_row({"memory.wait", "--memory-wait"}, {0, 24 * 3600 * kNsPerSecond}, "30s",
                             "how long to wait for memory that clients of a node before still hold",
                             [](auto& o) -> auto& { return o.memory_wait; }));
  for (OptionRow& one : all) one.of_keeper = true;
}

void add_node_rows(std::vector<OptionRow>& all) {
  all.push_back(of_keeper(socket_row()));
  all.push_back(of_keeper(admin_row()));
  all.push_back(users_row());
  all.push_back(switch_row({"node.unsafe_no_pidfd", "--unsafe-no-pidfd"}, "off",
                           "serve clients whose death cannot be proved (foreign pid namespace)",
                           [](auto& o) -> auto& { return o.unsafe_no_pidfd; }));
  all.push_back(spin_row());
  all.push_back(
      of_keeper(duration_row({"node.restart_backoff", "--restart-backoff"}, kBackoffRange, "100ms",
                             "delay before the second restart of a server; then twice as long each",
                             [](auto& o) -> auto& { return o.backoff.first; })));
  all.push_back(of_keeper(duration_row({"node.restart_backoff_most", "--restart-backoff-most"},
                                       kBackoffRange, "5s", "longest such delay",
                                       [](auto& o) -> auto& { return o.backoff.most; })));
  all.push_back(of_keeper(duration_row({"node.stop_grace", "--stop-grace"}, {0, 600 * kNsPerSecond},
                                       "5s", "time that a stopping server gets before it is killed",
                                       [](auto& o) -> auto& { return o.stop_grace; })));
  all.push_back(of_keeper(duration_row({"node.start_limit", "--start-limit"},
                                       {kNsPerSecond, 3600 * kNsPerSecond}, "2m",
                                       "time from the start of a server until it must serve",
                                       [](auto& o) -> auto& { return o.start_limit; })));
  all.push_back(
      of_keeper(duration_row({"node.hang_limit", "--hang-limit"}, {0, 3600 * kNsPerSecond}, "30s",
                             "a server that answers nothing for so long is killed; 0: never",
                             [](auto& o) -> auto& { return o.hang_limit; })));
}

void add_cache_rows(std::vector<OptionRow>& all) {
  all.push_back(policy_row());
  all.push_back(bytes_row({"eviction.reserve", "--reserve"}, kMemoryRange, "2 % of the value area",
                          "256MiB", "free slots kept ahead of demand",
                          [](auto& o) -> auto& { return o.machine.reserve_bytes; }));
  all.push_back(bytes_row({"client.max_pinned", "--max-pinned"}, kMemoryRange,
                          "25 % of the value area", "4GiB", "memory that one client may pin",
                          [](auto& o) -> auto& { return o.machine.max_pinned_bytes; }));
  all.push_back(bytes_row({"client.max_prepared", "--max-prepared"}, kMemoryRange,
                          "25 % of the value area", "4GiB",
                          "memory that one client may reserve for puts under way",
                          [](auto& o) -> auto& { return o.machine.prepared_cap_bytes; }));
}

}  // namespace

std::string OptionRow::limits_text() const {
  std::string text;
  for (const std::string& one : choices) text += (text.empty() ? "" : ", ") + one;
  const std::string numbers = range_text(type, range);
  if (text.empty()) return numbers;
  return numbers.empty() ? text : text + ", or " + numbers;
}

const std::vector<OptionRow>& option_rows() {
  static const std::vector<OptionRow> all = [] {
    std::vector<OptionRow> list;
    add_memory_rows(list);
    add_node_rows(list);
    list.push_back(log_row());
    add_cache_rows(list);
    return list;
  }();
  return all;
}

const OptionRow* find_option(std::string_view key) {
  const auto found = std::ranges::find(option_rows(), key, &OptionRow::key);
  return found == option_rows().end() ? nullptr : &*found;
}

const OptionRow* find_by_variable(std::string_view name) {
  const auto found = std::ranges::find(option_rows(), name, &OptionRow::variable);
  return found == option_rows().end() ? nullptr : &*found;
}

bool is_option_group(std::string_view key) {
  const std::string prefix = std::string(key) + ".";
  return std::ranges::any_of(option_rows(),
                             [&](const OptionRow& one) { return one.key.starts_with(prefix); });
}

std::string variable_of_key(std::string_view key) {
  std::string name = "ORLOP_";
  for (const char c : key) {
    name += c == '.' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return name;
}

std::vector<std::pair<std::string, std::string>> effective(const NodeOptions& options) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const OptionRow& one : option_rows()) out.emplace_back(one.key, one.get(options));
  return out;
}

}  // namespace orlop::node
