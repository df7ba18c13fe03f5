// SPDX-License-Identifier: Apache-2.0
// Contract: requests to the admin server, as its handlers get them (the HTTP itself is
// cpp-httplib's and not searched here), while a client has written anything into its report page
// and its name.
//   * A question is refused in words, or answered with one JSON object of bounded size.
//   * Asking changes nothing: slot table, slabs and namespaces are byte for byte the same.
//   * /status.json is JSON, /metrics is the Prometheus text format: no client can add a line to it.
//
// Input: client's name; report page; then what is asked: a path's last part and its parameters.
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "fuzz_target.h"
#include "host.h"
#include "input.h"
#include "node/inspect_json.h"
#include "node/metrics.h"
#include "node/status_json.h"
#include "protocol/attach/frames.h"

namespace orlop::fuzz {
namespace {

using namespace protocol;

constexpr ClientId kWriter{1}, kHostile{2};
constexpr std::size_t kMostAnswer = 256 * 1024;  // kInspectRows rows of facts

class World {
 public:
  World(std::string name, std::span<const std::byte> report) {
    host().start_cold();
    writer().format(kWriter);
    hostile().format(kHostile);
    host().attach(kWriter, writer().view(), "writer");
    host().attach(kHostile, hostile().view(), std::move(name));
    const HostNamespace ns = host().open(kWriter, 0, 256);
    const std::uint32_t groups[] = {3, 2, 1};
    host().put(kWriter, ns, host_keys(0, 6), groups);
    host().put_start(kHostile, host().open(kHostile, 1, 5000), host_keys(0, 2));
    const std::size_t bytes = std::min(report.size(), sizeof(segment::ClientReport));
    if (bytes != 0)
      std::memcpy(static_cast<void*>(&hostile().view().report()), report.data(), bytes);
    host().now += kNsPerSecond;
    host().node().read_clients(host().now);
  }
  ~World() { host().kill(); }

  static Host& host() {
    static Host& one = *new Host;
    return one;
  }

 private:
  static HostChannel& writer() {
    static HostChannel& one = *new HostChannel;
    return one;
  }
  static HostChannel& hostile() {
    static HostChannel& one = *new HostChannel;
    return one;
  }
};

std::vector<std::byte> tables() {
  const segment::Geometry& g = World::host().memory().geometry;
  const auto all = World::host().control();
  const auto head = all.first(g.namespace_text_offset);
  const auto slots = all.subspan(g.slot_table_offset, g.control_bytes - g.slot_table_offset);
  std::vector<std::byte> copy(head.begin(), head.end());
  copy.insert(copy.end(), slots.begin(), slots.end());
  return copy;
}

void check_json(const std::string& text) {
  CHECK(text.size() <= kMostAnswer);
  CHECK(nlohmann::json::parse(text, nullptr, false).is_object());
}

void ask(Input& input) {
  constexpr const char* kWhat[] = {"sums", "slots", "key", "client"};
  constexpr const char* kNames[] = {"from", "after", "row", "limit", "id"};
  const std::uint32_t which = input.below(5);
  const std::string what(which < 4 ? kWhat[which] : input.short_text());
  node::QueryParameters parameters;
  for (std::uint32_t n = input.below(5); n > 0; --n) {
    const std::uint32_t name = input.below(6);
    const std::string key(name < 5 ? kNames[name] : input.short_text());
    parameters.emplace(key, std::string(input.short_text()));
  }
  const auto question = node::parse_inspection(what, parameters);
  if (!question) {
    CHECK(question.error().code == ErrorCode::kInvalidArgument);
    for (const char c : question.error().message)
      CHECK(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
    return;
  }
  const InspectAnswer answer = World::host().node().inspect(*question, World::host().now);
  if (const Error* error = std::get_if<Error>(&answer)) {
    CHECK(error->code == ErrorCode::kInvalidArgument && !error->message.empty());
    return;
  }
  check_json(node::inspection_json(answer));
}

runtime::NodeSnapshot snapshot_of(std::string_view last_end) {
  Host& host = World::host();
  runtime::NodeSnapshot snapshot;
  snapshot.segment = SegmentId{77};
  snapshot.incarnation = Incarnation{1};
  snapshot.last_end = last_end;
  snapshot.upgrade.reason = last_end;
  snapshot.counters = host.node().counters();
  snapshot.gauges = host.node().gauges(host.now);
  snapshot.traffic = host.node().traffic();
  for (ClientGauges& gauges : host.node().clients(host.now))
    snapshot.clients.push_back({std::move(gauges), 4711, true, 4096});
  for (const auto& ns : host.node().namespaces())
    snapshot.namespaces.push_back({ns.row, ns.index, ns.value_len, std::string(ns.text), ns.slots,
                                   ns.readable_bytes, ns.traffic});
  return snapshot;
}

void check_metrics(const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    CHECK(end != std::string::npos, "a line is ended");
    const std::string_view line = std::string_view(text).substr(at, end - at);
    CHECK(line.starts_with("# HELP orlop_") || line.starts_with("# TYPE orlop_") ||
          (line.starts_with("orlop_") && line.find(' ') != std::string_view::npos));
    at = end + 1;
  }
}

}  // namespace

void run_one(std::span<const std::byte> bytes) {
  Input input(bytes);
  // As the server cleans what came in an attach frame.
  const std::string name = clean_client_name(input.short_text());
  const World world(name, input.bytes(input.take<std::uint16_t>() % sizeof(segment::ClientReport)));
  const auto before = tables();
  const auto snapshot = snapshot_of(input.short_text());
  check_json(node::status_json(snapshot, {}, {{"memory.capacity", name}}));
  check_metrics(node::metrics_text(snapshot, {}));
  for (unsigned n = 0; n < 32 && !input.empty(); ++n) ask(input);
  CHECK(tables() == before, "asking changes nothing");
}

std::vector<Seed> make_seeds() {
  const auto begin = [](std::string_view name) {
    InputWriter w;
    w.short_text(name).put<std::uint16_t>(0).short_text("killed by signal 9");
    return w;
  };
  InputWriter all = begin("vllm-0");
  all.byte(0).byte(1).byte(0).short_text("0");
  all.byte(1).byte(3).byte(1).short_text("0").byte(2).short_text("0").byte(3).short_text("5");
  all.byte(2).byte(2).byte(2).short_text("0").byte(4).short_text(node::key_id_text(host_key(1)));
  all.byte(3).byte(1).byte(4).short_text("2");
  all.byte(4).short_text("../etc/passwd").byte(0);
  InputWriter wrong = begin("a\"b\\c\n");
  wrong.byte(0).byte(2).byte(0).short_text("1").byte(0).short_text("2");
  wrong.byte(1).byte(1).byte(5).short_text("lmit").short_text("1");
  wrong.byte(2).byte(1).byte(4).short_text("zz");
  InputWriter report;
  report.short_text("liar").put<std::uint16_t>(sizeof(segment::ClientReport) - 1);
  for (std::size_t i = 0; i + 8 <= sizeof(segment::ClientReport); i += 8)
    report.put(~std::uint64_t{0} - i);
  return {{"questions", all.take()}, {"wrong", wrong.take()}, {"report", report.take()}};
}

}  // namespace orlop::fuzz
