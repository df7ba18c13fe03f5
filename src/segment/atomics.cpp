// SPDX-License-Identifier: Apache-2.0
#include "segment/atomics.h"

namespace orlop::segment {

#ifdef ORLOP_SIMULATION
thread_local AtomicHooks* g_atomic_hooks = nullptr;
#endif

}  // namespace orlop::segment
