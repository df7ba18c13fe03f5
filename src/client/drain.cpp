// SPDX-License-Identifier: Apache-2.0
#include "client/drain.h"

#include "client/access.h"

namespace orlop::detail {

Result<DrainState> drain_node(const Client& client, protocol::DrainMode mode) {
  if (auto usable = ClientAccess::usable(client); !usable) return std::unexpected(usable.error());
  return ClientAccess::core(client).drain(mode);
}

Result<DrainState> ClientCore::drain(protocol::DrainMode mode) {
  auto post = [mode](client::Attachment& attachment, std::uint64_t cookie) {
    return attachment.guarded->session.drain(mode, cookie);
  };
  const auto answer = simple_call(nullptr, std::ref(post));
  if (!answer) return std::unexpected(answer.error());
  return DrainState{answer->args[0] == 1, answer->args[1], answer->args[2]};
}

}  // namespace orlop::detail
