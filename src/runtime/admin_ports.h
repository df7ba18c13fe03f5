// SPDX-License-Identifier: Apache-2.0
// Where threads of the admin server meet the server's thread: all it tells other threads goes
// through here.
//
//   snapshots   /metrics, /status.json: everything, after a look at all clients
//   health      /healthz, /readyz: two words, whatever the number of clients
//   inspections /inspect/...: questions of people
#pragma once

#include "platform/event_fd.h"
#include "runtime/inspect_port.h"
#include "runtime/snapshot.h"

namespace orlop::runtime {

struct AdminPorts {
  // wake: rung when somebody asks; outlives this object.
  explicit AdminPorts(const EventFd& wake) : snapshots(wake), health(wake), inspections(wake) {}
  // Nobody waits for the server any more.
  void close() {
    snapshots.close();
    health.close();
    inspections.close();
  }

  SnapshotPort snapshots;
  HealthPort health;
  InspectPort inspections;
};

}  // namespace orlop::runtime
