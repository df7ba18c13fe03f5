// SPDX-License-Identifier: Apache-2.0
// Answers and the texts that explain them.
#include "base/units.h"
#include "protocol/node/node_state.h"

namespace orlop::protocol {

void NodeEffects::clear() {
  answers.clear();
  grants.clear();
  outcomes.clear();
  texts.clear();
  verify.clear();
  reclaimed.clear();
  close.clear();
  punch.clear();
}

NodeAnswer& Node::answer(NodeEffects& effects, ClientId client, RequestId request,
                         RequestCode code) {
  NodeAnswer& to = effects.answers.emplace_back();
  to.client = client;
  to.request = request;
  to.code = code;
  return to;
}

void Node::attach_text(NodeEffects& effects, NodeAnswer& to, std::string text) {
  if (text.size() > kMaxErrorText) text.resize(kMaxErrorText);
  to.text = static_cast<std::uint32_t>(effects.texts.size());
  effects.texts.push_back(std::move(text));
}

void Node::answer_error(NodeEffects& effects, ClientId client, RequestId request, RequestCode code,
                        ErrorCode status, std::string text) {
  NodeAnswer& to = answer(effects, client, request, code);
  to.status = static_cast<std::uint64_t>(status);
  attach_text(effects, to, std::move(text));
}

// Figures are those of the moment of the answer; pins are those of the last scan.
std::string Node::describe_pool(SizeClass size_class) const {
  const std::uint64_t bytes = classes_.bytes(size_class);
  const std::uint64_t total = allocator_.total_possible(value_len_of(size_class));
  const std::uint64_t free = available(size_class);
  std::uint64_t pinned = 0;
  const ClientRecord* most = nullptr;
  for (const auto& [id, client] : clients_) {
    pinned += client.pinned_bytes;
    if (client.pinned_bytes > 0 && (most == nullptr || client.pinned_bytes > most->pinned_bytes))
      most = &client;
  }
  std::string text = "no space for values of " + format_bytes(bytes) + ": " + format_count(free) +
                     " of " + format_count(total) + " slots free; all clients: prepared " +
                     format_bytes(prepared_bytes_) + ", resident " + format_bytes(resident_bytes_) +
                     ", pinned " + format_bytes(pinned);
  if (most != nullptr) {
    text += ", most of it by client '" + most->name + "' (" + std::to_string(most->id.value) +
            "): " + format_bytes(most->pinned_bytes);
  }
  if (!doomed_.empty())
    text += "; " + format_count(doomed_.size()) + " removed slots wait for their readers";
  return text;
}

std::string Node::describe_quota(const ClientRecord& client) const {
  return "over quota: client '" + client.name + "' (" + std::to_string(client.id.value) +
         ") holds " + format_bytes(client.prepared_bytes) + " prepared in " +
         format_count(client.open_puts) + " open puts; the limits are " +
         format_bytes(config_.prepared_cap_bytes) + " and " + format_count(kMaxHeldPuts) +
         " puts; commit or abort some";
}

}  // namespace orlop::protocol
