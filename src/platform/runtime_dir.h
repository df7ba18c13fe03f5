// SPDX-License-Identifier: Apache-2.0
// Where the node's socket is when nobody says: the same answer in daemon, library and CLI.
//
//   ORLOP_SOCKET is set       that path
//   root                      /run/orlop/orlop.sock
//   XDG_RUNTIME_DIR is set    $XDG_RUNTIME_DIR/orlop/orlop.sock
//   else                      /tmp/orlop-<uid>/orlop.sock, folder 0700 and ours
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "orlop/error.h"

namespace orlop {

struct RuntimeEnvironment {
  std::optional<std::string> orlop_socket;     // ORLOP_SOCKET; empty counts as not set
  std::optional<std::string> xdg_runtime_dir;  // XDG_RUNTIME_DIR; empty counts as not set
  uid_t uid = 0;
  // Of this process.
  static RuntimeEnvironment current();
};

struct SocketPlace {
  std::string socket_path;
  std::string folder;
  // We make the folder when it is missing, with this mode; 0: the operator's folder, must exist.
  mode_t folder_mode = 0;
  // Anybody may write the folder's parent (/tmp): accept only a real folder, ours, closed to
  // others.
  bool folder_must_be_ours = false;
};

// Pure. An explicit path (from a command line) is treated like ORLOP_SOCKET.
SocketPlace default_socket_place(const RuntimeEnvironment& environment);
SocketPlace explicit_socket_place(const std::string& socket_path);

// For the daemon: makes the folder if that is ours to do, then checks it.
// Errors: kRefused (not ours, a symbolic link, open to others), kSystem.
Result<void> prepare_socket_folder(const SocketPlace& place);
// For clients: only checks; a missing folder is kNoNode.
Result<void> check_socket_folder(const SocketPlace& place);

}  // namespace orlop
