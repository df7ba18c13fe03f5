// SPDX-License-Identifier: Apache-2.0
// Internal to room gpu: which device, and its name in files and messages. Thread: any.
#pragma once

#include <optional>
#include <string>

#include "gpu/compiled_layout.h"
#include "gpu/engine_table.h"
#include "orlop/error.h"

namespace orlop::gpu {

// kSystem: no driver, no such device.
Result<EngineTableKey> device_key(int device);

// The device whose memory all parts of the layout are in. None: they are CPU memory, or there is no
// driver or device, or this process has used none yet (and so has no memory of one). Makes no
// context. kInvalidArgument: parts in different places; names one.
Result<std::optional<int>> device_of(const CompiledLayout& layout);

// The table measured on this machine, else the default one; *note says which, for people.
EngineTable machine_engine_table(int device, std::string* note);

}  // namespace orlop::gpu
