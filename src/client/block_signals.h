// SPDX-License-Identifier: Apache-2.0
// Signals belong to the program's own threads: a thread of the library is started under one of
// these and inherits the mask.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace orlop::client {

class BlockSignals {
 public:
  BlockSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~BlockSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace orlop::client
