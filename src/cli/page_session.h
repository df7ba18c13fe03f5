// SPDX-License-Identifier: Apache-2.0
// What an engine's worker does with a prompt, without the engine: restore the longest prefix and
// check every byte of it, then store what was missing.
//
// Times are those of the library's calls and copies; filling pages and comparing their bytes, which
// only a test does, is not counted.
// Thread: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cli/page_bytes.h"
#include "cli/worker_link.h"
#include "orlop/client.h"

namespace orlop::cli {

class PageSession {
 public:
  // client outlives the session. writer: this worker's id in the pages that it fills. put_limit:
  // longest wait of a put for the node, and for its answer.
  PageSession(Client& client, Namespace ns, std::uint32_t writer, Milliseconds put_limit);

  // Restores the longest prefix; returns its length. A page with wrong bytes is counted, ends the
  // prefix before it, and is no error. Errors: misuse, closed client.
  Result<std::uint32_t> restore(std::span<const PageKey> keys);

  // Stores pages; each answer is counted. parent: the key before keys[0]. Keys that were stored are
  // appended to stored, if given. Returns the number stored.
  Result<std::uint32_t> store(std::span<const PageKey> keys, std::optional<PageKey> parent,
                              std::vector<PageKey>* stored = nullptr);

  // Called for every page that restore() read with the right bytes: whose they are.
  void observe(std::function<void(const PageKey&, std::uint32_t writer)> observer) {
    observer_ = std::move(observer);
  }
  TallyBody& tally() { return tally_; }

 private:
  void check_copied(std::span<const PageKey> keys, std::size_t begin, std::size_t end);
  Result<void> fill_and_copy_in(PutPlan& plan, std::span<const PageKey> keys, MonoNs& spent);
  Result<std::uint32_t> copy_and_check(ReadPlan& plan, std::span<const PageKey> keys,
                                       MonoNs& spent);
  std::span<std::byte> scratch(std::size_t page);
  static std::vector<Key> texts_of(std::span<const PageKey> keys);

  Client& client_;
  Namespace ns_;
  std::uint32_t writer_;
  Milliseconds put_limit_;
  std::size_t value_len_;
  std::size_t scratch_pages_;
  std::vector<std::byte> scratch_;
  TallyBody tally_;
  std::function<void(const PageKey&, std::uint32_t)> observer_;
};

}  // namespace orlop::cli
