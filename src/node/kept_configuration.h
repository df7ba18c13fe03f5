// SPDX-License-Identifier: Apache-2.0
// A copy of the configuration file as it was when it was accepted. A keeper holds it and starts its
// servers with it, so that a file that is broken later, or is meant for another program, matters
// only to who reloads or starts the node, never to a restart after a crash.
// Thread: any.
#pragma once

#include <string>

#include "orlop/error.h"
#include "platform/file_descriptor.h"

namespace orlop::node {

// The text at `path` now (at most kMaxOptionFileBytes), in memory that nobody can
// change. What is in it is not looked at. Errors: kSystem, kLimit, kInvalidArgument (no regular
// file).
Result<FileDescriptor> copy_of_configuration(const std::string& path);

// Where a copy of this number is read in the process that has it.
std::string configuration_path(int copy);

}  // namespace orlop::node
