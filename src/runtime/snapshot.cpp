// SPDX-License-Identifier: Apache-2.0
#include "runtime/snapshot.h"

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

}  // namespace orlop::runtime
