// SPDX-License-Identifier: Apache-2.0
// Operating errors of every Orlop call, one table for all languages.
//
// An *error* is something a caller can do something about (bad argument, no node, refused).
// An expected answer about one key (stored, exists, miss) is not an error: see outcome.h.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace orlop {

enum class ErrorCode : std::uint16_t {
  kInvalidArgument = 1,  // the message names argument, index and remedy; nothing was reserved
  kWrongState = 2,       // plan or handle used twice, of the wrong kind, after its end
  kForkedChild = 3,      // object was made by the parent of this process; open a new Client
  kNoNode = 4,           // no node answers at the socket
  kRefused = 5,          // the node refused us: other user, no death notice, limits
  kAbiMismatch = 6,      // client and node are of different versions; both are named
  kDeadline = 7,         // the caller's deadline passed
  kNoMemory = 8,  // does not fit: budget, cgroup, memlock, huge pages; numbers in the message
  kNamespaceConflict = 9,  // same digest, other descriptor; or unknown descriptor fields
  kLimit = 10,             // a fixed limit is exhausted (namespaces, clients, plans)
  kAddressInUse = 11,      // another daemon owns the socket
  kSystem = 12,            // an operating system call failed; call and errno in the message
  kCorrupt = 13,           // bytes do not match their checksum or their layout
  kClosed = 14,            // the object was closed
};

// Stable lower-case name, for logs, metrics and --json ("invalid_argument").
std::string_view to_string(ErrorCode code);

struct Error {
  ErrorCode code;
  std::string message;
};

template <class T>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(ErrorCode code, std::string message) {
  return std::unexpected<Error>(Error{code, std::move(message)});
}

}  // namespace orlop
