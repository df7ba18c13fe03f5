// SPDX-License-Identifier: Apache-2.0
// What a keeper leaves for the keeper after it: names of the descriptors in the service manager's
// store, a ledger in shared memory that says which of them belong together, and the judgement
// whether all of it may be used. Pure.
//
// Rule (precedence 1): memory that somebody may still touch is never used for anything else. So a
// new keeper takes over everything or nothing: judge_store() says no when a single thing that the
// ledger names is missing, or is there twice. What the store has beyond the ledger is harmless (a
// client that never got its channel, or was reclaimed) and is let go of.
// Thread: none; one owner.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "orlop/error.h"
#include "protocol/attach/frames.h"

namespace orlop::protocol {

// ---- names -----------------------------------------------------------------------------------

// Of descriptors in the store: ASCII without ':', at most 255 bytes (systemd's rule for FDNAME).
inline constexpr std::string_view kStoredLedger = "orlop-ledger";
inline constexpr std::string_view kStoredControl = "orlop-control";
inline constexpr std::string_view kStoredValue = "orlop-value";
// A client's: the five of kHold in their order, then the write end of its keeper pipe.
inline constexpr std::size_t kStoredPerClient = 6;
std::array<std::string, kStoredPerClient> stored_names_of(ClientId client);
std::string stored_name_of_server(std::uint32_t server);
// "orlop-...": ours, of this or another version.
bool is_stored_name(std::string_view name);
// The order in which to let go of these: the two areas first, because new memory waits for theirs.
std::vector<std::string> areas_first(std::vector<std::string> names);

// ---- judgement -------------------------------------------------------------------------------

struct Adoption {
  std::uint32_t next_client = 1;
  std::uint32_t last_server = 0;      // numbers of servers go on from here
  std::vector<std::string> servers;   // names; each must be proved dead first
  std::vector<std::string> leftover;  // names to take out of the store, those of servers included
};
// names: of everything that came out of the store. Names that are not ours count for nothing.
// Errors: kCorrupt, saying what is missing, twice there, or contradicts itself; kNoNode: nothing of
// ours is there.
Result<Adoption> judge_store(const LedgerFrame& ledger, const std::vector<std::string>& names);

// ---- memory ----------------------------------------------------------------------------------

// The ledger's memory: two copies and a word that says which one counts. The word is stored last,
// so a keeper killed between any two stores leaves the copy before. A view; owns nothing.
class LedgerPages {
 public:
  static constexpr std::size_t kBytes = kPageBytes + 2 * kMaxFrameBytes;

  // memory: kBytes, 8-aligned, zeroed (which is void) or written by another one of these.
  explicit LedgerPages(std::span<std::byte> memory);

  void write(const LedgerFrame& frame);
  // From now on nobody believes it. One store.
  void make_void();
  // Errors: kCorrupt (void, torn, of other bytes), kAbiMismatch (both versions named).
  Result<LedgerFrame> read() const;

 private:
  struct Copy;
  std::byte* copy_at(std::uint64_t sequence) const;

  std::byte* base_;
};

}  // namespace orlop::protocol
