// SPDX-License-Identifier: Apache-2.0
#include "runtime/snapshot.h"

#include <chrono>
#include <utility>

namespace orlop::runtime {

std::string_view to_string(protocol::RequestCode code) {
  using protocol::RequestCode;
  switch (code) {
    case RequestCode::kOpenNamespace:
      return "open_namespace";
    case RequestCode::kPutStart:
      return "put_start";
    case RequestCode::kPutCommit:
      return "put_commit";
    case RequestCode::kPutAbort:
      return "put_abort";
    case RequestCode::kRemove:
      return "remove";
    case RequestCode::kFlush:
      return "flush";
    case RequestCode::kReportMismatch:
      return "report_mismatch";
    case RequestCode::kDetach:
      return "detach";
    case RequestCode::kPing:
      return "ping";
    case RequestCode::kDrain:
      return "drain";
  }
  return "unknown";
}

std::shared_ptr<const NodeSnapshot> SnapshotPort::take(MonoNs timeout_ns) {
  std::unique_lock lock(mutex_);
  if (closed_) return nullptr;
  const std::uint64_t ticket = ++asked_;
  wake_.ring();
  const bool there = delivered_changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                                                 [&] { return closed_ || delivered_ >= ticket; });
  return there && !closed_ ? last_ : nullptr;
}

std::uint64_t SnapshotPort::wanted() {
  const std::lock_guard lock(mutex_);
  return asked_ != delivered_ ? asked_ : 0;
}

void SnapshotPort::deliver(std::uint64_t ticket, std::shared_ptr<const NodeSnapshot> snapshot) {
  {
    const std::lock_guard lock(mutex_);
    last_ = std::move(snapshot);
    delivered_ = ticket;
  }
  delivered_changed_.notify_all();
}

void SnapshotPort::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  delivered_changed_.notify_all();
}

}  // namespace orlop::runtime
