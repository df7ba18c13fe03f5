// SPDX-License-Identifier: Apache-2.0
// A node of one's own for `demo`, `replay`, tests: started as a child process with its socket in a
// fresh temporary folder, stopped and removed when the object ends.
//
// Guarantees: the node ends with this process even if it is killed (parent death signal), and with
// the *thread* that started it: start from main's thread. Its log is <folder>/node.log.
// Thread: one.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/ids.h"
#include "node/status_file.h"
#include "orlop/error.h"
#include "platform/process.h"

namespace orlop::cli {

class PrivateNode {
 public:
  // arguments: options of `orlop serve` without --socket and --admin. Returns when the node serves.
  // keep_folder: leave log and last status behind. Errors: kDeadline, kClosed (interrupted), what
  // `serve` said when it refused (kRefused, its words in the message), kSystem.
  static Result<PrivateNode> start(std::vector<std::string> arguments, bool keep_folder,
                                   MonoNs deadline);
  PrivateNode(PrivateNode&& other) noexcept;
  PrivateNode& operator=(PrivateNode&&) = delete;
  ~PrivateNode() { (void)stop(); }

  const std::string& folder() const { return folder_; }
  const std::string& socket() const { return socket_; }
  Result<nlohmann::ordered_json> status() const;
  // SIGKILL to the server process, not to its keeper. Returns the time just before it.
  Result<MonoNs> kill_server() const;
  // Graceful, then by force after kStopLimit; removes the folder. Idempotent. Errors: kSystem when
  // force was needed or the node ended with another status than 0.
  Result<void> stop();

 private:
  PrivateNode() = default;
  Result<void> make_folder();
  Result<void> spawn_keeper(std::vector<std::string> arguments);
  Result<void> wait_until_served(MonoNs deadline);
  std::string last_log_lines() const;

  std::string folder_;
  std::string socket_;
  bool keep_folder_ = false;
  Child keeper_;
};

// Longer than the node's own grace for its server.
inline constexpr MonoNs kStopLimit = 8 * kNsPerSecond;

}  // namespace orlop::cli
