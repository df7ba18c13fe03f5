// SPDX-License-Identifier: Apache-2.0
// The table of bad input and faults: every row does one wrong thing,
// or lets one fault happen, against the real daemon through liborlop or through the bare channel.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "orlop/error.h"
#include "world.h"

namespace orlop::negative_test {

// Every kind of bad input and fault that must be covered; negative_test.cpp holds the table
// against this list.
enum class Item {
  kEmptyKeyList,
  kDuplicateKeys,
  kValueLength,
  kGroupLengths,
  kReplicateMask,
  kPlanUsedTwice,
  kPlanOfWrongKind,
  kPlanAfterRelease,
  kForkedChild,
  kWrongPrefixLength,
  kUnknownDescriptorFields,
  kTwoDescriptorsOneDigest,
  kCapacityThatCannotFit,
  kSocketPathTooLong,
  kSocketOccupied,
  kSocketStale,
  kAnotherUser,
  kOtherAbi,
  kHostileChannel,
  kFalseMismatch,
  kFullPool,
  kLedgerFull,
  kClientKilled,
  kClientStopped,
  kClientForked,
  kServerKilled,
  kServerStopped,
  kNoNode,
  kNodeStartsLater,
  kKeeperKilled,
  kCallFromC,  // what only a caller of orlop.h can do; not asked of the C++ client
  kCount
};

struct Row {
  Item item;
  std::string name;
  // What is answered: the error (code, and all these words in its message), or none at all.
  std::optional<ErrorCode> code{};
  std::vector<std::string> says{};
  // May fail the test by itself too. After it the world must be sound.
  std::function<Result<void>(World&)> act{};
  // Its own daemon, for rows that need other flags or take the daemon away.
  std::optional<WorldOptions> world{};
};
using Rows = std::vector<Row>;

Rows argument_rows();
Rows plan_rows();
Rows namespace_rows();
Rows start_rows();
Rows attach_rows();
Rows hostile_rows();
Rows space_rows();
Rows client_fault_rows();
Rows server_fault_rows();
Rows absence_rows();
// Through the C API only, together with the rows above that call the client.
Rows c_rows();
Rows c_handle_rows();
Rows c_page_rows();
Rows c_page_job_rows();

// The error of any result; success when it has none.
template <class T>
Result<void> error_of(const Result<T>& result) {
  if (!result) return std::unexpected(result.error());
  return {};
}

}  // namespace orlop::negative_test
