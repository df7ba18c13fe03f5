// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupt.h"

#include <signal.h>

#include <initializer_list>

namespace orlop::cli {
namespace {

volatile sig_atomic_t interrupt_seen = 0;

void note_interrupt(int) {
  interrupt_seen = 1;
}

}  // namespace

void catch_interrupts() {
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action{};
    action.sa_handler = note_interrupt;
    action.sa_flags = static_cast<int>(SA_RESETHAND);  // no SA_RESTART: waits must end
    ::sigaction(signal_number, &action, nullptr);
  }
}

bool interrupted() {
  return interrupt_seen != 0;
}

}  // namespace orlop::cli
