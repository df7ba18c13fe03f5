// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

namespace orlop::python {

// The class _Child, which orlop.node stands on.
void bind_child(nanobind::module_& module);

}  // namespace orlop::python
