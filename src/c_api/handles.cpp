// SPDX-License-Identifier: Apache-2.0
#include "c_api/handles.h"

namespace orlop::c_api {

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::kClient:
      return "client";
    case Kind::kNamespace:
      return "namespace";
    case Kind::kPutPlan:
      return "put plan";
    case Kind::kFuture:
      return "future";
    case Kind::kGetHandle:
      return "get handle";
    case Kind::kReadPlan:
      return "read plan";
    case Kind::kPageCache:
      return "page cache";
    case Kind::kBackup:
      return "backup";
    case Kind::kRestore:
      return "restore";
  }
  return "pointer to something else";
}

Result<void> check_place(std::string_view argument, bool given) {
  if (given) return {};
  return fail(ErrorCode::kInvalidArgument,
              std::string(argument) + ": is NULL; give a place for the result");
}

Result<void> give_number(const Result<std::uint64_t>& answered, std::uint64_t* out) {
  if (!answered) return std::unexpected(answered.error());
  if (out != nullptr) *out = *answered;
  return {};
}

}  // namespace orlop::c_api
