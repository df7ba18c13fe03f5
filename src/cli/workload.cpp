// SPDX-License-Identifier: Apache-2.0
#include "cli/workload.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/check.h"
#include "segment/key_id.h"

namespace orlop::cli {
namespace {

// Of a turn; a load balancer that mostly keeps users where their pages were once local.
constexpr double kMoveChance = 0.25;
// Of a turn: the user has what he wanted and asks something unrelated next.
constexpr double kLeaveChance = 0.06;

// What an engine hashes: the page before, and the tokens of this one.
struct ChainLink {
  PageKey before;
  std::array<std::uint32_t, kPageTokens> tokens;
};

PageKey hash_of(const ChainLink& link) {
  const std::string_view bytes(reinterpret_cast<const char*>(&link), sizeof link);
  const segment::Digest digest = segment::digest_of(bytes);
  return {digest.lo, digest.hi};
}

}  // namespace

std::uint32_t users_for(std::uint64_t capacity_pages) {
  // A conversation has on average about 50 pages of its own.
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(capacity_pages / 40, 4, 1'000'000));
}

Workload::Workload(const WorkloadOptions& options)
    : options_(options), choices_(options.seed), tokens_(choices_.fork()) {
  CHECK(options.workers >= 1 && options.users >= 1 && options.system_prompts >= 1);
  system_prompts_.resize(options.system_prompts);
  for (auto& prompt : system_prompts_) {
    const auto pages = choices_.between(kMinSystemPages, kMaxSystemPages);
    extend(prompt, static_cast<std::uint32_t>(pages), tokens_);
  }
  users_.resize(options.users);
  for (std::uint32_t i = 0; i < options.users; ++i) users_[i].worker = i % options.workers;
}

Request Workload::next() {
  Request request;
  request.index = made_++;
  request.user = choose_user();
  User& user = users_[request.user];
  if (choices_.chance(kMoveChance)) {
    user.worker = static_cast<std::uint32_t>(choices_.uniform(options_.workers));
  }
  if (choices_.chance(kLeaveChance)) user.history.clear();
  request.new_conversation = user.history.empty();
  if (request.new_conversation) {
    user.history = system_prompts_[choices_.uniform(system_prompts_.size())];
  }
  const auto question = choices_.between(1, kMaxQuestionPages);
  const auto answer = choices_.between(1, kMaxAnswerPages);
  extend(user.history, static_cast<std::uint32_t>(question), tokens_);
  request.prompt_pages = static_cast<std::uint32_t>(user.history.size());
  extend(user.history, static_cast<std::uint32_t>(answer), tokens_);
  request.worker = user.worker;
  request.keys = user.history;
  if (user.history.size() >= kMaxConversationPages) user.history.clear();
  return request;
}

std::uint32_t Workload::choose_user() {
  // Squared: a quarter of the users makes half of the requests.
  const double place = choices_.real();
  return static_cast<std::uint32_t>(place * place * static_cast<double>(users_.size()));
}

void Workload::extend(std::vector<PageKey>& keys, std::uint32_t pages, Rng& tokens) {
  for (std::uint32_t i = 0; i < pages; ++i) {
    ChainLink link{keys.empty() ? PageKey{} : keys.back(), {}};
    for (std::uint32_t& token : link.tokens) {
      token = static_cast<std::uint32_t>(tokens.uniform(128'000));  // a usual vocabulary
    }
    keys.push_back(hash_of(link));
  }
}

}  // namespace orlop::cli
