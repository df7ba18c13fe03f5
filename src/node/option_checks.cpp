// SPDX-License-Identifier: Apache-2.0
#include "node/option_checks.h"

#include "node/admin_address.h"
#include "runtime/segment_files.h"

namespace orlop::node {
namespace {

class Checks {
 public:
  explicit Checks(Settings& settings) : settings_(settings), options_(settings.options) {}

  void run() {
    if (forms_of_memory()) sizes();
    backoff();
    addresses();
  }

 private:
  // "memory.capacity = 64MiB (flag --capacity)"
  std::string cited(const char* key) const {
    return std::string(key) + " = " + find_option(key)->get(options_) + " (" +
           settings_.origin(key) + ")";
  }
  void mistake(std::string text) { settings_.mistakes.push_back(std::move(text)); }

  // False: there is no size to check others against.
  bool forms_of_memory() {
    const runtime::MemoryOptions& memory = options_.memory;
    const bool length = memory.payload_value_len != 0, bytes = memory.payload_bytes != 0;
    if (memory.capacity != 0 && (length || bytes)) {
      mistake(cited("memory.capacity") + " and " +
              cited(bytes ? "memory.payload.bytes" : "memory.payload.value_len") +
              " both say how large the memory is; keep one of the two forms");
      return false;
    }
    if (length != bytes) {
      const char* missing = length ? "memory.payload.bytes" : "memory.payload.value_len";
      mistake(cited(length ? "memory.payload.value_len" : "memory.payload.bytes") + " needs " +
              missing + " besides; set it as well (" + find_option(missing)->flag + ")");
      return false;
    }
    if (length && settings_.origins.contains("memory.max_value_len") &&
        memory.payload_value_len > memory.max_value_len) {
      mistake(cited("memory.payload.value_len") + " is longer than " +
              cited("memory.max_value_len") + "; raise memory.max_value_len or leave it out");
      return false;
    }
    return settings_.sized();
  }

  void sizes() {
    const auto geometry = runtime::geometry_of(options_.memory);
    if (!geometry) {
      const char* size = options_.memory.capacity != 0 ? "memory.capacity" : "memory.payload.bytes";
      return mistake(geometry.error().message + "; now: " + cited(size) + ", " +
                     cited("memory.max_value_len"));
    }
    const struct {
      const char* key;
      std::uint64_t bytes;
    } parts[] = {{"eviction.reserve", options_.machine.reserve_bytes},
                 {"client.max_pinned", options_.machine.max_pinned_bytes},
                 {"client.max_prepared", options_.machine.prepared_cap_bytes}};
    for (const auto& part : parts) {
      if (part.bytes <= geometry->value_bytes()) continue;
      mistake(cited(part.key) + " is more than the whole value area of " +
              exact_bytes(geometry->value_bytes()) + "; lower it, or leave it out for " +
              find_option(part.key)->unset);
    }
  }

  void backoff() {
    if (options_.backoff.first <= options_.backoff.most) return;
    mistake(cited("node.restart_backoff") + " is longer than " +
            cited("node.restart_backoff_most") + "; lower the first or raise the second");
  }

  void addresses() {
    const auto admin = parse_admin_address(options_.admin);
    if (!admin || admin->kind != AdminAddress::Kind::kUnix || admin->path != options_.socket)
      return;
    mistake(cited("node.admin") + " and " + cited("node.socket") +
            " are the same path; give each its own");
  }

  Settings& settings_;
  const NodeOptions& options_;
};

}  // namespace

void check_together(Settings& settings) {
  Checks(settings).run();
}

}  // namespace orlop::node
