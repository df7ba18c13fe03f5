// SPDX-License-Identifier: Apache-2.0
// HTTP for people and monitors: /metrics, /healthz, /readyz, /status.json, /inspect/...
// (inspect_json.h). Nothing here changes the node: whoever reaches the address may only look.
//
// Runs on threads of its own over the keeper's listening socket; everything it shows was made by
// the server's thread (runtime/admin_ports.h). A server that does not answer within kAnswerLimit is
// not healthy; whether it does never depends on its clients. Thread: made and ended by the server's
// main thread.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "platform/file_descriptor.h"
#include "runtime/admin_ports.h"

namespace orlop::node {

inline constexpr MonoNs kAnswerLimit = 2 * kNsPerSecond;

class AdminServer {
 public:
  // socket: may be none, then nothing is served. ports: outlive this object.
  AdminServer(FileDescriptor socket, runtime::AdminPorts& ports,
              std::vector<std::pair<std::string, std::string>> configuration);
  // Ends the listening socket for all who hold it (a graceful stop ends the keeper too). A server
  // that ends otherwise leaves it to the kernel, so that the next one can use it.
  ~AdminServer();

 private:
  class Http;
  std::unique_ptr<Http> http_;
};

}  // namespace orlop::node
