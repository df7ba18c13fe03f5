// SPDX-License-Identifier: Apache-2.0
// The client's classes, as the rows use them, made of calls of orlop/orlop.h alone. Where it is
// included, the names Client, PutPlan ... of this namespace are these, so that the same rows ask
// the same questions of the C API and expect the same words.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "orlop/client.h"
#include "orlop/orlop.h"

namespace orlop::negative_test {

Result<void> c_answer(orlop_status status);

// All zero but for its size.
template <class Struct>
Struct sized() {
  Struct made{};
  made.struct_size = sizeof made;
  return made;
}

template <auto kFree>
struct CFree {
  template <class Handle>
  void operator()(Handle* handle) const {
    kFree(handle);
  }
};

// Keys of one length go packed, others as an array: both forms are asked.
class CKeys {
 public:
  explicit CKeys(std::span<const Key> keys);
  CKeys(const CKeys&) = delete;
  const orlop_keys* get() const { return &keys_; }

 private:
  std::vector<orlop_bytes> items_;
  std::string packed_;
  orlop_keys keys_{};
};

class Namespace {
 public:
  std::uint32_t value_len() const { return orlop_namespace_value_len(handle_.get()); }
  bool resolved() const { return orlop_namespace_resolved(handle_.get()) == 1; }

 private:
  friend class Client;
  std::shared_ptr<orlop_namespace> handle_;
};

class Future {
 public:
  bool ready() const { return orlop_future_ready(handle_.get()) == 1; }
  std::optional<std::vector<Outcome>> wait(Milliseconds timeout) const;

 private:
  friend class Client;
  std::shared_ptr<orlop_future> handle_;
};

class PutPlan {
 public:
  std::size_t size() const { return orlop_put_plan_size(handle_.get()); }
  std::size_t prepared() const { return orlop_put_plan_prepared(handle_.get()); }
  Outcome outcome(std::size_t i) const {
    return static_cast<Outcome>(orlop_put_plan_outcome(handle_.get(), i));
  }
  std::string_view explanation() const;
  std::span<std::byte> memory(std::size_t i) const;
  Result<void> copy_in(std::size_t i, std::span<const std::byte> source);
  Result<void> set_checksum(std::size_t i, std::uint64_t checksum);
  Result<std::uint64_t> register_copy();
  Result<void> copy_done(std::uint64_t copy, bool success);
  Result<std::span<const std::uint64_t>> blob();
  orlop_put_plan* c() const { return handle_.get(); }

 private:
  friend class Client;
  std::unique_ptr<orlop_put_plan, CFree<orlop_put_plan_free>> handle_;
};

class GetHandle {
 public:
  GetResult result() const;
  orlop_get_handle* c() const { return handle_.get(); }

 private:
  friend class Client;
  std::unique_ptr<orlop_get_handle, CFree<orlop_get_handle_free>> handle_;
};

class ReadPlan {
 public:
  std::size_t size() const { return orlop_read_plan_size(handle_.get()); }
  std::size_t ranks() const { return orlop_read_plan_ranks(handle_.get()); }
  std::span<const std::byte> view(std::size_t i, std::size_t rank = 0);
  std::span<const std::byte> view_unverified(std::size_t i, std::size_t rank = 0) const;
  Result<bool> copy_out(std::size_t i, std::span<std::byte> destination, std::size_t rank = 0);
  std::size_t valid_len() const { return orlop_valid_len(handle_.get()); }
  std::uint64_t expected_checksum(std::size_t i, std::size_t rank = 0) const {
    return orlop_expected_checksum(handle_.get(), i, rank);
  }
  Result<void> report_mismatch(std::size_t i, std::size_t rank = 0);
  Result<std::uint64_t> register_copy();
  Result<void> copy_done(std::uint64_t copy, bool success);
  Result<std::span<const std::uint64_t>> blob();
  orlop_read_plan* c() const { return handle_.get(); }

 private:
  friend class Client;
  std::unique_ptr<orlop_read_plan, CFree<orlop_read_plan_free>> handle_;
};

class Client {
 public:
  explicit Client(const ClientOptions& options = {});

  bool ready() const { return orlop_ready(handle_.get()) == 1; }
  bool wait_ready(Milliseconds timeout) const {
    return orlop_wait_ready(handle_.get(), timeout.count()) == ORLOP_OK;
  }
  Error last_attach_error() const;
  std::uint64_t segment_id() const { return orlop_segment_id(handle_.get()); }
  std::uint64_t incarnation() const { return orlop_incarnation(handle_.get()); }
  Result<Namespace> open_namespace(const NamespaceDescriptor& descriptor);
  Result<Namespace> open_namespace_json(std::string_view json);

  Result<PutPlan> put_start(const Namespace& ns, std::span<const Key> keys,
                            const PutOptions& options = {});
  Result<Future> put_commit(PutPlan& plan);
  Result<void> put_abort(PutPlan& plan);
  Result<std::vector<Outcome>> put(const Namespace& ns, std::span<const Key> keys,
                                   std::span<const std::span<const std::byte>> buffers,
                                   const PutOptions& options = {});
  Result<GetHandle> get_start(const Namespace& ns, std::span<const Key> keys,
                              const GetOptions& options = {});
  Result<GetHandle> get_start_cohort(std::span<const Namespace> ranks, std::span<const Key> keys,
                                     const GetOptions& options = {});
  Result<ReadPlan> get_transfer(GetHandle& handle,
                                std::optional<std::uint32_t> consume_prefix_len = {});
  Result<void> cancel_get(GetHandle& handle);
  Result<void> release_views(ReadPlan& plan);
  Result<void> copy_done(std::uint64_t copy, bool success);
  Result<std::uint32_t> get(const Namespace& ns, std::span<const Key> keys,
                            std::span<const std::span<std::byte>> buffers,
                            const GetOptions& options = {});
  Result<ExistsResult> exists(const Namespace& ns, std::span<const Key> keys);
  Result<std::uint64_t> remove(const Namespace& ns, std::span<const Key> keys);
  Result<std::uint64_t> flush(const Namespace& ns);
  Result<std::uint64_t> flush_family(const Namespace& ns);
  Result<void> ping() { return c_answer(orlop_ping(handle_.get())); }
  ClientStats stats() const;
  void close() { orlop_close(handle_.get()); }

  // For rows that call orlop.h themselves.
  orlop_client* c() const { return handle_.get(); }
  static const orlop_namespace* c(const Namespace& ns) { return ns.handle_.get(); }

 private:
  std::unique_ptr<orlop_client, CFree<orlop_client_free>> handle_;
  Error open_error_{ErrorCode::kWrongState, ""};  // when orlop_open refused
};

}  // namespace orlop::negative_test
