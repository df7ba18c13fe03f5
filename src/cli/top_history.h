// SPDX-License-Identifier: Apache-2.0
// What `orlop top` knows: the last status of a node, and how fast its counters grew since the one
// before. Pure: statuses and times are given.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/ids.h"

namespace orlop::cli {

// Per second, over the time between two statuses of the same server. None: the node does not tell,
// or there is no such pair yet.
struct TopRates {
  std::optional<double> seconds;  // between the two
  std::optional<double> keys_asked, keys_hit, bytes_read;
  std::optional<double> keys_stored, bytes_written;
  std::optional<double> slots_evicted, bytes_evicted;
  // Keys hit of those asked in that time, 0..1; none when none was asked.
  std::optional<double> hit_rate() const;
};

class TopHistory {
 public:
  explicit TopHistory(std::string socket) : socket_(std::move(socket)) {}

  // taken: CLOCK_MONOTONIC.
  void add(nlohmann::ordered_json status, MonoNs taken);
  // No status could be had. The last one is forgotten: what it says may be wrong by now.
  void lose(std::string why);

  const std::string& socket() const { return socket_; }
  bool node() const { return !status_.is_null(); }
  const nlohmann::ordered_json& status() const { return status_; }
  const std::string& why() const { return why_; }
  const TopRates& rates() const { return rates_; }
  // Servers that were seen to be replaced since the first status.
  std::uint64_t restarts_seen() const { return restarts_seen_; }

 private:
  std::string socket_;
  std::string why_ = "not asked yet";
  nlohmann::ordered_json status_;
  MonoNs taken_ = 0;
  // Of the last server that was seen, also while none is; empty: none yet.
  std::string server_;
  TopRates rates_;
  std::uint64_t restarts_seen_ = 0;
};

// One line for programs. time: as people write it.
nlohmann::ordered_json top_json(const TopHistory& history, const std::string& time);

}  // namespace orlop::cli
