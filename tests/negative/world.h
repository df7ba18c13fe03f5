// SPDX-License-Identifier: Apache-2.0
// What every row of the table acts on: a real daemon and a worker that others must not disturb.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon.h"
#include "worker.h"

namespace orlop::negative_test {

struct WorldOptions {
  std::vector<std::string> daemon{};  // flags
  process_test::DaemonStart start{};
};

class World {
 public:
  // Requires: not used when ok() says false; the daemon's log says why.
  explicit World(WorldOptions options = {});
  bool ok() const { return worker_.has_value() && worker_->usable(); }

  process_test::Daemon& daemon() { return *daemon_; }
  Worker& worker() { return *worker_; }
  std::string socket() const { return folder_.path() + "/node.sock"; }
  const std::string& folder() const { return folder_.path(); }

  // After the keeper's end: a new daemon at the same socket, the worker attaches by itself.
  bool start_another_daemon();

  // Nothing is reserved, everything adds up, and the worker puts and gets a fresh key. Fails the
  // test otherwise.
  void expect_sound();
  // Why not yet; empty: all slots and gauges are as they must be when nobody does anything.
  std::string what_is_left() const;
  // The worker reads all of these with the right bytes.
  void expect_readable(std::span<const Key> keys);

 private:
  WorldOptions options_;
  process_test::TemporaryFolder folder_;
  std::unique_ptr<process_test::Daemon> daemon_;
  std::optional<Worker> worker_;
  int fresh_ = 0;
};

}  // namespace orlop::negative_test
