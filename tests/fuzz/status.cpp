// SPDX-License-Identifier: Apache-2.0
// Contract: what a node tells its tools (any bytes: an old node, a new one, another program at that
// port): /status.json as `orlop status, top, doctor, inspect, flush, remove` read it.
//   * Nothing throws, whatever is missing or of another type.
//   * Nothing that reaches a terminal has control characters but newlines.
//   * The screen of `orlop top` keeps to its size.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/admin_client.h"
#include "cli/doctor_namespaces.h"
#include "cli/doctor_node.h"
#include "cli/doctor_traffic.h"
#include "cli/inspect_sums.h"
#include "cli/inspect_view.h"
#include "cli/json_parts.h"
#include "cli/named_namespace.h"
#include "cli/status_view.h"
#include "cli/top_history.h"
#include "cli/top_view.h"
#include "fuzz_target.h"
#include "host.h"
#include "input.h"

namespace orlop::fuzz {
namespace {

using Json = nlohmann::ordered_json;

void check_printable(const std::string& text) {
  const auto byte = [&text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size(); ++i) {
    CHECK((byte(i) >= 0x20 && byte(i) != 0x7f) || text[i] == '\n',
          "a terminal gets no control characters");
    // U+0080 to U+009F are control characters as well.
    CHECK(byte(i) != 0xc2 || i + 1 == text.size() || byte(i + 1) < 0x80 || byte(i + 1) >= 0xa0,
          "a terminal gets no control characters in UTF-8");
  }
}

void check_screen(const Json& status, cli::ScreenSize size) {
  const cli::Painter plain(false);
  cli::TopHistory history("/run/orlop/node.sock");
  history.add(status, kNsPerSecond);
  history.add(status, 2 * kNsPerSecond);
  const std::string screen = cli::top_view(history, size, plain);
  check_printable(screen);
  std::size_t lines = 0;
  for (std::size_t at = 0; at < screen.size(); ++lines) {
    const std::size_t end = screen.find('\n', at);
    CHECK(end != std::string::npos, "a line is ended");
    CHECK(cli::visible_width(std::string_view(screen).substr(at, end - at)) <= size.columns);
    at = end + 1;
  }
  CHECK(lines <= size.rows);
}

void check_doctor(const Json& status) {
  cli::NodeLook look;
  look.keeper_visible = true;
  look.status = status;
  std::vector<cli::Section> sections = {{"node", cli::judge_node(look, "0.1.0", 2)},
                                        {"traffic", cli::diagnose(status)}};
  sections[0].checks.push_back(cli::judge_descriptor(status, Json::object()));
  check_printable(cli::doctor_text(sections, cli::Painter(false), 80));
  cli::json_text(cli::doctor_json(sections));
  cli::diagnose(cli::without_doctor(status));
}

void check_views(const Json& status) {
  const cli::Painter plain(false);
  check_printable(cli::status_text(status, "/run/orlop/node.sock", plain));
  const auto all = cli::list_namespaces(status);
  if (!all) {
    check_printable(all.error().message);
    return;
  }
  check_printable(cli::namespaces_text(*all, plain));
  for (const char* name : {"0", "3", "abcdef", "\x1b[2J"})
    if (const auto found = cli::find_namespace(*all, name); !found)
      check_printable(found.error().message);
  check_printable(cli::slot_sums_text(status, *all, plain));
  check_printable(cli::slot_list_text(status));
  check_printable(cli::client_text(status, status, *all, plain));
  if (!all->empty()) check_printable(cli::key_text(status, all->front(), *all, plain));
  Json sums;
  cli::add_sums(sums, status);
  cli::add_sums(sums, status);
}

}  // namespace

void run_one(std::span<const std::byte> input) {
  const auto status = cli::parse_answer(as_text(input));
  if (!status) return;
  CHECK(status->is_object());
  check_views(*status);
  check_doctor(*status);
  check_screen(*status, {80, 24});
  check_screen(*status, {static_cast<std::size_t>(20 + input.size() % 60), 5});
}

std::vector<Seed> make_seeds() {
  const std::string ns = R"({"row": 0, "index": 1, "value_len": 256, "slots": 3,
    "readable_bytes": 12288, "descriptor": )" +
                         Host::descriptor(1, 256) +
                         R"(, "traffic": {"keys_asked": 9, "keys_hit": 3, "missed": {"evicted": 1,
    "never_written": 5}}})";
  const std::string status = R"({"segment_id": "77", "incarnation": "5", "version": "0.1.0",
    "abi": 2, "restarts": 1, "uptime_seconds": 12.5, "draining": false,
    "memory": {"capacity": 2147483648, "slab_bytes": 67108864, "resident": 4096, "huge_bytes": 0},
    "slots": {"free": 1, "prepared": 0, "committed": 3, "retiring": 0, "total": 4},
    "traffic": {"keys_asked": 9, "keys_hit": 3, "bytes_read": 768, "keys_stored": 3,
    "bytes_written": 768, "misses": {"not_found": 6}}, "counters": {"slots_evicted": 2,
    "bytes_evicted": 8192, "outcomes": {"stored": 3}},
    "clients": [{"id": 3, "name": "vllm\u001b[31m", "pid": 4711, "connected": true,
    "pinned_bytes": 4096, "oldest_put_age_seconds": 0.5}],
    "namespaces": [)" + ns + R"(], "configuration": {"memory.capacity": "2GiB"}})";
  return {text_seed("status", status),
          text_seed("empty", "{}"),
          text_seed("wrong-types",
                    R"({"clients": 7, "namespaces": {"a": 1}, "traffic": [], "slots": "many",
    "restarts": -1e300, "uptime_seconds": null})"),
          text_seed("other-namespaces", R"({"namespaces": [{"descriptor": {"engine": "x"}}]})"),
          text_seed("sums", R"({"classes": [{"slot_bytes": 4096, "slabs": 1, "slots":
    {"free": 15, "committed": 1}, "free_runs": 1, "longest_free_run": 15}], "namespaces":
    [{"row": 0, "slot_bytes": 4096}, {"row": null}], "common_slabs": 31, "next": null,
    "slots": [{"slot": 1, "generation": 1, "state": "committed", "row": 0}],
    "puts": [], "pins": [{"row": 0, "pages": 1}], "pages": [{"slot": 1}]})"),
          text_seed("no-json", "<html>404</html>"),
          text_seed("nested", R"({"namespaces": [{"descriptor": [[[[[[[[]]]]]]]]}]})")};
}

}  // namespace orlop::fuzz
