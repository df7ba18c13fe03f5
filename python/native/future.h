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

// list[Outcome]; GIL held.
nb::object outcome_list(const std::vector<Outcome>& outcomes);

// Waits in slices without the GIL and lets signal handlers run between them (Ctrl-C raises).
// timeout_s: none waits for ever. Nullopt: the time is over.
std::optional<std::vector<Outcome>> wait_interruptibly(const Future& future,
                                                       std::optional<double> timeout_s);

}  // namespace orlop::python
