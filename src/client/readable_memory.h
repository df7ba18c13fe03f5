// SPDX-License-Identifier: Apache-2.0
// Whether the CPU can read an address of this process, asked of the kernel and not by a fault.
// Thread: any.
#pragma once

#include <cstdint>

namespace orlop::client {

bool readable_byte(std::uint64_t address);

}  // namespace orlop::client
