// SPDX-License-Identifier: Apache-2.0
// A process that attaches as a client does and then writes what it likes into the memory that it
// may write. It speaks the protocol only to come back when the node has closed its connection.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace orlop::process_test {

class Scribbler {
 public:
  // channel: all of its channel, random and structured, for `rounds` rounds; then it exits.
  // values: the first `values_bytes` of the value area, until it is killed.
  struct Options {
    std::uint64_t seed = 1;  // not 0, of each its own
    unsigned rounds = 0;
    std::uint64_t values_bytes = 0;
  };
  // Forks: call it before the test has threads.
  Scribbler(const std::string& socket, Options options);
  ~Scribbler() { kill(); }
  Scribbler(const Scribbler&) = delete;
  Scribbler& operator=(const Scribbler&) = delete;

  // Until it has exited by itself. True: as it should (not killed, attached at least once).
  bool wait();
  void kill();

 private:
  pid_t pid_ = 0;
};

}  // namespace orlop::process_test
