// SPDX-License-Identifier: Apache-2.0
// A stream of chat requests as an inference server sees them, from a seed: a few system prompts
// shared by everybody, conversations that grow turn by turn, users who come back (some often, most
// seldom), end a conversation, begin another, and are sent to another worker now and then.
//
// Guarantees: the stream depends on the options only, so every worker process makes all of it by
// itself and serves its own part; page keys are chained hashes of the tokens, so two requests have
// the same key exactly when everything up to that page is the same.
// Thread: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "cli/page_bytes.h"

namespace orlop::cli {

struct WorkloadOptions {
  std::uint64_t seed = 1;
  std::uint32_t workers = 2;         // >= 1
  std::uint32_t users = 64;          // >= 1
  std::uint32_t system_prompts = 8;  // >= 1
};

// Pages of 16 tokens, as engines use them. A conversation ends after about kMaxConversationPages.
inline constexpr std::uint32_t kPageTokens = 16;
inline constexpr std::uint32_t kMinSystemPages = 16;
inline constexpr std::uint32_t kMaxSystemPages = 48;
inline constexpr std::uint32_t kMaxConversationPages = 144;
// Longest list of keys of one request: a conversation just below its end, one question and answer.
inline constexpr std::uint32_t kMaxQuestionPages = 6;
inline constexpr std::uint32_t kMaxAnswerPages = 8;
inline constexpr std::uint32_t kMaxRequestPages =
    kMaxConversationPages + kMaxQuestionPages + kMaxAnswerPages;

// As many users as keep about the whole cache busy and a part of it turning over.
std::uint32_t users_for(std::uint64_t capacity_pages);

struct Request {
  std::uint64_t index = 0;  // 0, 1, 2 ...
  std::uint32_t user = 0;
  std::uint32_t worker = 0;
  bool new_conversation = false;
  std::vector<PageKey> keys;       // prompt, then the answer that the engine will make
  std::uint32_t prompt_pages = 0;  // keys that a cache may hold before the engine runs
};

class Workload {
 public:
  explicit Workload(const WorkloadOptions& options);
  Request next();

 private:
  struct User {
    std::vector<PageKey> history;  // empty: next turn begins a conversation
    std::uint32_t worker = 0;
  };
  std::uint32_t choose_user();
  // Adds pages of fresh tokens.
  void extend(std::vector<PageKey>& keys, std::uint32_t pages, Rng& tokens);

  WorkloadOptions options_;
  Rng choices_;
  Rng tokens_;
  std::vector<std::vector<PageKey>> system_prompts_;
  std::vector<User> users_;
  std::uint64_t made_ = 0;
};

}  // namespace orlop::cli
