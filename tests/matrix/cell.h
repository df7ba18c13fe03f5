// SPDX-License-Identifier: Apache-2.0
// The crash matrix: what happens to a host when, exactly at a named place of one of its processes,
// a process is killed, stopped or replaced.
//
// A cell is a pause point and a fault. The host is a real node under a stand-in service manager
// that keeps its descriptors, with two client processes at work: a witness that nothing happens to,
// and a victim. In every cell must hold:
//   * no process reads a wrong byte;
//   * the witness' local hits go on while the fault lasts, whoever is dead or stands still;
//   * no call of the witness takes longer than its deadline (with a machine's slack, kCallLimitNs);
//   * afterwards everybody makes progress again: puts are stored, the victim (or a new one) works;
//   * all pages that the witness had stored are still there;
//   * what a dead client had is given back, within kReclaimLimit;
//   * when both have flushed and left, no slot is in use, nothing is pinned, no client is known.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "fault.h"
#include "platform/pause_point.h"

namespace orlop::matrix {

struct Cell {
  PausePoint point = PausePoint::kNone;
  Fault fault = Fault::kKillClient;
};
// Every point with every fault, points first.
std::vector<Cell> all_cells();
std::string name_of(const Cell& cell);  // "client_pinned/kill_server"

struct CellLimits {
  MonoNs stop = 5 * kNsPerSecond;  // how long a stopped process stands still
  std::uint32_t skip = 0;          // arrivals at the point that pass, where a host at work comes by
  MonoNs reclaim = 1 * kNsPerSecond;  // from death (or from when the others may act) to given back
};

struct CellResult {
  std::vector<std::string> complaints;  // empty: everything held
  MonoNs reclaim = 0;                   // 0: nobody died
  MonoNs longest_call = 0;              // of the witness
  MonoNs took = 0;
  std::string log;  // of the node; only with complaints
};

// Starts a host of its own in a temporary folder, and leaves nothing behind.
CellResult run_cell(const Cell& cell, const CellLimits& limits);

}  // namespace orlop::matrix
