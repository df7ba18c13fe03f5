// SPDX-License-Identifier: Apache-2.0
// The Python Future over orlop::Future.
#pragma once

#include <memory>

#include "client_box.h"

namespace orlop::python {

struct FutureBox {
  std::shared_ptr<ClientBox> box;
  Future future;
};

void bind_future(nb::module_& module);

// __await__ of whatever has ready() and result(timeout).
nb::object awaited(nb::handle self);

// list[Outcome]; GIL held.
nb::object outcome_list(const std::vector<Outcome>& outcomes);

}  // namespace orlop::python
