// SPDX-License-Identifier: Apache-2.0
// Clients: opening, closing, readiness, counters.
#include <algorithm>
#include <iterator>
#include <memory>

#include "c_api/arguments.h"
#include "c_api/guard.h"
#include "c_api/handles.h"
#include "c_api/structs.h"
#include "client/access.h"
#include "orlop/orlop.h"

namespace orlop::c_api {
namespace {

using detail::ClientAccess;

// A live handle of this process.
Result<void> check_client(const orlop_client* client) {
  if (auto checked = check_handle("client", client); !checked) return checked;
  return ClientAccess::usable(*client->object);
}

orlop_client_stats in_c(const ClientStats& stats) {
  orlop_client_stats out{};
  out.gets = stats.gets;
  out.keys_asked = stats.keys_asked;
  out.keys_hit = stats.keys_hit;
  out.bytes_read = stats.bytes_read;
  out.puts = stats.puts;
  out.keys_put = stats.keys_put;
  out.keys_stored = stats.keys_stored;
  out.bytes_written = stats.bytes_written;
  static_assert(kMissReasonCount <= std::size(decltype(out.misses){}));
  static_assert(kOutcomeCount <= std::size(decltype(out.outcomes){}));
  std::copy(std::begin(stats.misses), std::end(stats.misses), out.misses);
  std::copy(std::begin(stats.outcomes), std::end(stats.outcomes), out.outcomes);
  out.mismatches = stats.mismatches;
  out.attaches = stats.attaches;
  out.resumes = stats.resumes;
  out.aborted_late = stats.aborted_late;
  out.open_read_plans = stats.open_read_plans;
  out.open_put_plans = stats.open_put_plans;
  out.open_handles = stats.open_handles;
  out.pinned_bytes = stats.pinned_bytes;
  out.pin_cap_bytes = stats.pin_cap_bytes;
  return out;
}

}  // namespace
}  // namespace orlop::c_api

using namespace orlop::c_api;
using orlop::ErrorCode;
using orlop::Result;

orlop_status orlop_open(const orlop_client_options* options, orlop_client** out) {
  if (out != nullptr) *out = nullptr;
  return guarded([&]() -> Result<void> {
    if (auto checked = check_out("out", out); !checked) return checked;
    auto read = read_options(options);
    if (!read) return std::unexpected(read.error());
    auto made = std::make_unique<orlop_client>();
    made->object.emplace(std::move(*read));
    *out = made.release();
    return {};
  });
}

orlop_status orlop_close(orlop_client* client) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_client(client); !checked) return checked;
    client->object->close();
    return {};
  });
}

void orlop_client_free(orlop_client* client) {
  free_handle(client);
}

int orlop_ready(const orlop_client* client) {
  return guarded_value(0, [&] { return usable(client) && client->object->ready() ? 1 : 0; });
}

orlop_status orlop_wait_ready(const orlop_client* client, int64_t timeout_ms) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_client(client); !checked) return checked;
    if (client->object->wait_ready(orlop::Milliseconds{timeout_ms})) return {};
    return orlop::fail(ErrorCode::kDeadline,
                       "not ready after " + std::to_string(timeout_ms) +
                           " ms: " + client->object->last_attach_error().message);
  });
}

orlop_status orlop_last_attach_error(const orlop_client* client) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_client(client); !checked) return checked;
    if (client->object->ready()) return {};
    return std::unexpected(client->object->last_attach_error());
  });
}

uint64_t orlop_segment_id(const orlop_client* client) {
  return guarded_value(uint64_t{0},
                       [&] { return usable(client) ? client->object->segment_id() : 0; });
}

uint64_t orlop_incarnation(const orlop_client* client) {
  return guarded_value(uint64_t{0},
                       [&] { return usable(client) ? client->object->incarnation() : 0; });
}

orlop_status orlop_ping(orlop_client* client) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_client(client); !checked) return checked;
    return client->object->ping();
  });
}

orlop_status orlop_stats(const orlop_client* client, orlop_client_stats* stats) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_client(client); !checked) return checked;
    if (auto checked = check_out("stats", stats); !checked) return checked;
    if (auto checked = check_struct_size("stats", stats->struct_size, sizeof *stats); !checked)
      return checked;
    write_struct(stats, in_c(client->object->stats()));
    return {};
  });
}

orlop_status orlop_copy_done(orlop_client* client, uint64_t copy, int success) {
  return guarded([&]() -> Result<void> {
    if (auto checked = check_client(client); !checked) return checked;
    return client->object->copy_done(copy, success != 0);
  });
}
