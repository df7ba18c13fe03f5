// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_round_trip.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "base/units.h"
#include "cli/doctor_namespaces.h"
#include "orlop/client.h"
#include "platform/clock.h"
#include "platform/random_bytes.h"

namespace orlop::cli {
namespace {

// A server that recovers a million slots takes a tenth of a second; a start under load longer.
constexpr Milliseconds kAttachLimit{5'000};
constexpr Milliseconds kCallLimit{2'000};
// Every node takes values of this size.
constexpr std::uint32_t kValueBytes = 4'096;

NamespaceDescriptor doctor_descriptor() {
  NamespaceDescriptor descriptor;
  descriptor.engine = kDoctorEngine;
  descriptor.layout = "round-trip/1";
  descriptor.model = "none";
  descriptor.revision = "none";
  descriptor.dtype = "u8";
  descriptor.page_tokens = 1;
  descriptor.value_len = kValueBytes;
  return descriptor;
}

class Trip {
 public:
  explicit Trip(const std::string& socket)
      : begun_(monotonic_ns()),
        client_({.socket = socket, .name = kDoctorEngine, .call_budget = kCallLimit}) {}

  RoundTrip run() {
    RoundTrip trip;
    trip.attached = attach();
    if (trip.attached && open_namespace() && ping()) {
      if (put()) {
        const bool same = read_back();
        remove(same);
      }
      detach();
    }
    trip.checks = std::move(checks_);
    return trip;
  }

 private:
  // Ends the step that began with the last call of this.
  bool step(const char* name, std::string finding) {
    const MonoNs now = monotonic_ns();
    checks_.push_back({.name = name,
                       .finding = std::move(finding) + " in " + format_duration_ns(now - begun_),
                       .figures = {{"seconds", static_cast<double>(now - begun_) / 1e9}}});
    begun_ = now;
    return true;
  }
  bool fails(const char* name, std::string finding, std::string remedy,
             Verdict verdict = Verdict::kFailure) {
    checks_.push_back({.name = name,
                       .verdict = verdict,
                       .finding = std::move(finding),
                       .remedy = std::move(remedy)});
    return false;
  }

  bool attach() {
    if (client_.wait_ready(kAttachLimit)) return step("attach", "attached");
    const Error error = client_.last_attach_error();
    return fails("attach", "not attached: " + error.message,
                 error.code == ErrorCode::kAbiMismatch
                     ? "install the same version for client and node"
                     : "an engine here would not attach either: see the checks `socket`, `pidfd` "
                       "and `container`");
  }

  bool open_namespace() {
    auto opened = client_.open_namespace(doctor_descriptor());
    if (!opened) {
      return fails("open_namespace", opened.error().message, "engines meet the same refusal");
    }
    namespace_ = *opened;
    if (!namespace_.resolved()) {
      return fails("open_namespace",
                   "the node did not answer in " + std::to_string(kCallLimit.count()) + " ms",
                   "its server hangs or restarts: see the check `restarts` and the node's log");
    }
    return step("open_namespace", "opened");
  }

  bool ping() {
    if (const auto answered = client_.ping(); !answered) {
      return fails("ping", answered.error().message,
                   "the server does not take requests: see the node's log");
    }
    return step("ping", "answered");
  }

  bool put() {
    const auto id = random_id();
    const auto filled = fill_random(bytes_);
    if (!id || !filled) return fails("put", "no random bytes can be had", "see getrandom(2)");
    key_ = "orlop-doctor-" + std::to_string(*id);
    begun_ = monotonic_ns();
    const Key key = key_;
    const std::span<const std::byte> value = bytes_;
    const auto outcomes = client_.put(namespace_, {&key, 1}, {&value, 1});
    if (!outcomes) return fails("put", outcomes.error().message, "engines cannot store either");
    const Outcome outcome = outcomes->front();
    if (outcome == Outcome::kStored) {
      return step("put", format_bytes(kValueBytes) + " stored");
    }
    const std::string name(to_string(outcome));
    if (outcome == Outcome::kNotAdmitted) {
      return fails("put", "not stored: " + name, "the node drains or its policy keeps pages out",
                   Verdict::kWarning);
    }
    return fails("put", "not stored: " + name, "engines meet the same: see `traffic`");
  }

  bool read_back() {
    const Key key = key_;
    std::vector<std::byte> back(kValueBytes);
    const std::span<std::byte> buffer = back;
    const auto hits = client_.get(namespace_, {&key, 1}, {&buffer, 1});
    if (!hits) return fails("read_back", hits.error().message, "engines cannot read either");
    if (*hits != 1) {
      return fails("read_back", "a page that was stored a moment ago is a miss",
                   "under great pressure it may have been evicted at once: see `traffic`");
    }
    if (!std::ranges::equal(back, bytes_)) {
      return fails("read_back", "other bytes came back than were stored",
                   "stop using this node and report it: the checksum should have caught this");
    }
    return step("read_back", "the same " + format_bytes(kValueBytes));
  }

  void remove(bool there) {
    const Key key = key_;
    const auto removed = client_.remove(namespace_, {&key, 1});
    if (!removed) {
      fails("remove", removed.error().message, "a page of 4 KiB stays until it is evicted");
      return;
    }
    const auto left = client_.exists(namespace_, {&key, 1});
    if (there && (*removed != 1 || !left || left->prefix_len != 0)) {
      fails("remove", "the page is still there after remove", "report it with the node's log");
      return;
    }
    step("remove", "removed (the namespace's row stays)");
  }

  void detach() {
    client_.close();
    step("detach", "detached");
  }

  MonoNs begun_;
  Client client_;
  Namespace namespace_;
  std::string key_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kValueBytes);
  std::vector<Check> checks_;
};

}  // namespace

RoundTrip make_round_trip(const std::string& socket) {
  return Trip(socket).run();
}

}  // namespace orlop::cli
