// SPDX-License-Identifier: Apache-2.0
// Signals belong to the program's own threads: a thread of the library is started under one of
// these and inherits the mask; nor must a handler run in a child between fork and exec.
// Thread: the one that made it.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <cerrno>

namespace orlop {

class BlockSignals {
 public:
  BlockSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  // Leaves errno: what was done in between may have failed.
  ~BlockSignals() {
    const int error = errno;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace orlop
