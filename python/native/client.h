// SPDX-License-Identifier: Apache-2.0
// What a Python Client does. Every call: with the GIL, given up in waits, copies and large batches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "client_box.h"
#include "put_plan.h"
#include "read_plan.h"

namespace orlop::python {

struct NamespaceBox {
  std::shared_ptr<ClientBox> box;
  Namespace ns;
  std::uint32_t value_len = 0;
};

struct PutArguments {  // as Python gave them
  nb::handle group_lens, parent, deadline;
};

class ClientObject {
 public:
  explicit ClientObject(std::shared_ptr<ClientBox> box) : box_(std::move(box)) {}

  ClientBox& box() const { return *box_; }
  const std::shared_ptr<ClientBox>& shared_box() const { return box_; }
  Client& usable() const {
    box_->check_process();
    return box_->client;
  }

  NamespaceBox open_namespace(const std::string& json) const;
  std::shared_ptr<PutPlanBox> put_start(const NamespaceBox& ns, nb::handle keys,
                                        const PutArguments& arguments) const;
  nb::object put(const NamespaceBox& ns, nb::handle keys, nb::handle buffers,
                 const PutArguments& arguments) const;
  std::uint32_t get(const NamespaceBox& ns, nb::handle keys, nb::handle buffers,
                    nb::handle group_lens) const;
  nb::object get_bytes(const NamespaceBox& ns, nb::handle keys) const;
  HandleBox get_start(const NamespaceBox& ns, nb::handle keys, nb::handle group_lens) const;
  HandleBox get_start_cohort(nb::handle namespaces, nb::handle keys, nb::handle group_lens) const;
  std::shared_ptr<ReadPlanBox> get_transfer(HandleBox& handle,
                                            std::optional<std::uint32_t> prefix) const;
  void cancel_get(HandleBox& handle) const;
  std::shared_ptr<ReadPlanBox> read(const NamespaceBox& ns, nb::handle keys,
                                    nb::handle group_lens) const;
  ExistsResult exists(const NamespaceBox& ns, nb::handle keys) const;
  std::uint64_t remove(const NamespaceBox& ns, nb::handle keys) const;
  std::uint64_t flush(const NamespaceBox& ns, bool family) const;
  bool wait_ready(std::optional<double> timeout_s) const;

 private:
  std::uint32_t get_one(const NamespaceBox& ns, nb::handle key, nb::handle buffer) const;
  nb::object put_one(const NamespaceBox& ns, nb::handle key, nb::handle buffer) const;

  std::shared_ptr<ClientBox> box_;
};

void bind_client(nb::module_& module);
void bind_results(nb::module_& module);  // GetResult, ExistsResult, Stats, Namespace

}  // namespace orlop::python
