// SPDX-License-Identifier: Apache-2.0
// Something beside the plans that uses a client's mapped memory and has to let go of it: a
// PageCache, whose copies run on devices and whose registration pins the mapping.
#pragma once

#include "base/ids.h"

namespace orlop::client {

class MemoryUser {
 public:
  virtual ~MemoryUser() = default;
  // close() was called: no new copies; those that run are cancelled, and over when this returns or
  // the deadline has passed. Called without locks of the client.
  virtual void client_closes(MonoNs deadline) = 0;
  // The node's memory is gone for good: give up what no copy needs, or the next node finds no room.
  // Called by the library's thread, without locks of the client.
  virtual void memory_gone() = 0;
};

}  // namespace orlop::client
