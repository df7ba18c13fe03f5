// SPDX-License-Identifier: Apache-2.0
// Random bytes of the kernel (getrandom), for segment ids, incarnations and instance nonces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "orlop/error.h"

namespace orlop {

Result<void> fill_random(std::span<std::byte> out);
// Never 0, because 0 means "none" in every id.
Result<std::uint64_t> random_id();

}  // namespace orlop
