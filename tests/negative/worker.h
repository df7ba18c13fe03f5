// SPDX-License-Identifier: Apache-2.0
// A user of liborlop in a test: pages whose bytes follow from their key, so that every page read is
// compared with what it must be. Used by the test process and by its forked children alike, so
// nothing in here asserts: it answers what happened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "orlop/client.h"
#ifdef ORLOP_THROUGH_C
#include "c_client.h"  // Client, PutPlan ... of this namespace are made of calls of orlop.h
#endif

namespace orlop::negative_test {

inline constexpr std::uint32_t kValueLen = 4096;
// Beyond what any loaded machine needs; nothing waits for its end unless something hangs.
inline constexpr Milliseconds kPatience{20'000};

// Keys that live as long as the object, as the calls want them.
class Keys {
 public:
  explicit Keys(std::size_t count, const std::string& prefix = "k", std::size_t first = 0);
  explicit Keys(std::vector<std::string> texts);
  Keys(const Keys&) = delete;
  operator std::span<const Key>() const { return keys_; }  // NOLINT: a view of itself
  std::size_t size() const { return keys_.size(); }
  Key operator[](std::size_t i) const { return keys_[i]; }

 private:
  std::vector<std::string> texts_;
  std::vector<Key> keys_;
};

NamespaceDescriptor descriptor(std::uint32_t value_len = kValueLen,
                               const std::string& model = "model");
std::vector<std::byte> page_of(Key key, std::uint32_t value_len = kValueLen);
bool all_are(const std::vector<Outcome>& outcomes, Outcome wanted);

struct Got {
  std::uint32_t pages = 0;  // the prefix that was there
  std::uint32_t wrong = 0;  // of these: other bytes than were put
  MissReason reason = MissReason::kNone;
};

class Worker {
 public:
  // Attaches and opens the one namespace; usable() says whether both came about.
  explicit Worker(ClientOptions options);
  static ClientOptions options(const std::string& socket, std::string name,
                               Milliseconds call_budget = kPatience);

  bool usable() const { return usable_; }
  // One outcome per key; empty when the call was refused, the error is then last_error().
  std::vector<Outcome> put(std::span<const Key> keys, const PutOptions& options = {});
  Got get(std::span<const Key> keys);
  // The first `pages` pages of an open plan that hold other bytes than were put.
  static std::uint32_t wrong_pages(ReadPlan& plan, std::span<const Key> keys);
  const Error& last_error() const { return last_error_; }

  Client client;
  Namespace ns;

 private:
  bool usable_ = false;
  Error last_error_{ErrorCode::kNoNode, ""};
};

}  // namespace orlop::negative_test
