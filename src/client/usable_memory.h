// SPDX-License-Identifier: Apache-2.0
// Value memory of one attachment as copy engines may use it.
#pragma once

#include <memory>

#include "client/attachment.h"

namespace orlop::client {

struct UsableMemory {
  std::shared_ptr<Attachment> attachment;
  std::shared_ptr<const void> registration;  // null on the host; goes before the mapping does
};

}  // namespace orlop::client
