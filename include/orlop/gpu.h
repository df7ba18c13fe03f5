// SPDX-License-Identifier: Apache-2.0
// Pages of an engine's cache to values of Orlop and back, at the speed of the link.
//
//   auto cache = PageCache::open(client, layout, ns.value_len());      // once; registers with CUDA
//   auto plan = client.put_start(ns, keys);
//   auto backup = cache->backup({{{&*plan, {pages}}}}, {.stream = stream});  // commits by itself
//   ...
//   auto handle = client.get_start(ns, keys);
//   auto views = client.get_transfer(*handle);
//   auto restore = cache->restore({{{&*views, {pages}}}}, {.stream = stream, .ranges = layers});
//   restore->stream_wait(0, stream);   // the forward pass may begin on the first layers
//   ...
//   restore->wait(timeout);            // per plan: pages that are right (checksums matched)
//
// Guarantees
//   * A plan given to backup or restore lives until the device is done with its memory: cancel,
//     close() and the death of the plan object only mark it (registered copies, client.h).
//   * backup: when the pages have arrived their checksums go into the plan and it is committed, by
//     the library's own thread; an error or a cancel aborts it. Nothing is readable before.
//   * restore: nothing is reported valid before every checksum of it was compared. A mismatch is
//     reported to the node and makes its page and all after it misses of that plan.
//   * Client::close() cancels the jobs and waits for them, at most the call budget; plans of jobs
//     that are not over by then end with their copies. After it backup() and restore() answer
//     kClosed.
//   * No call waits for the device but the two wait(), close() and the destructor of the cache. On
//     the host stream_wait() waits for the copy, there is no stream to do it. The first backup or
//     restore on new value memory registers it first, as open() does.
//   * Without CUDA (not built in, no driver, host addresses in the layout) the same calls run on
//     the CPU ("host").
//   * A restore of some layers only is checked as a whole all the same: the CPU reads what the
//     ranges leave out. So give all layers where they are wanted anyway.
// Thread: a PageCache may be used by several threads; a job object belongs to one at a time.
// Fork: as Client; a child must not touch the cache.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "orlop/client.h"
#include "orlop/error.h"
#include "orlop/kv_layout.h"

namespace orlop {

enum class CopyEngineChoice : std::uint8_t { kAuto, kHost, kStaged, kDirect, kPieces };

struct PageCacheOptions {
  CopyEngineChoice engine =
      CopyEngineChoice::kAuto;              // kAuto: by the machine's table of measurements
  int device = -1;                          // -1: where the layout's memory is
  std::uint64_t staging_bytes = 192 << 20;  // GPU memory a direction, for kStaged
  // Backups off a GPU go in bursts of at most so many bytes (64 KiB or more), each submitted when
  // the one before has arrived; what stream_wait() waits for goes at once. A GPU's copy engine
  // stays with a stream for as long as that has copies, so an engine's own copy to the host, of the
  // tokens of a step, waited 22 ms beside a backup of 1.2 GB (H200); a burst of 8 MiB takes 0.15.
  // 0: no bursts, the link's full rate.
  std::uint64_t backup_burst_bytes = 0;
  // Told while value memory is registered with CUDA (seconds for hundreds of GiB), on the thread
  // that called open(), backup() or restore(). Must not call those; must not throw.
  std::function<void(std::uint64_t done_bytes, std::uint64_t all_bytes)> progress{};
};

// pages: one list a pool of the layout. Of a PutPlan: pages_per_value numbers for every key of the
// plan, prepared or not; of a ReadPlan: for every page of it.
struct BackupItem {
  PutPlan* plan = nullptr;
  std::vector<std::span<const std::int64_t>> pages{};
};
struct RestoreItem {
  ReadPlan* plan = nullptr;
  std::vector<std::span<const std::int64_t>> pages{};
  std::size_t rank = 0;  // of a cohort's plan
};

struct BackupOptions {
  // cudaStream_t of the layout's device: begin after what was submitted there; null: at once.
  void* stream = nullptr;
};
struct RestoreOptions {
  void* stream = nullptr;
  // Copied in this order; disjoint; empty: all layers at once. Each begins and ends at a multiple
  // of 8 bytes of the value (the checksum has no smaller parts), or at the value's end.
  std::vector<LayerRange> ranges{};
};

struct PageCacheStats {                     // of this PageCache, since it was opened
  std::uint64_t backups = 0, restores = 0;  // jobs begun
  std::uint64_t pages_backed_up = 0, bytes_backed_up = 0;
  std::uint64_t pages_restored = 0, bytes_restored = 0;
  std::uint64_t mismatches = 0;             // pages whose checksum was wrong
  std::uint64_t cancelled = 0, failed = 0;  // jobs
  std::uint64_t running = 0;                // gauge: jobs that are not over
  std::uint64_t registered_bytes = 0;       // gauge: value memory in use by the engines
};

namespace detail {
class PageCacheState;
class BackupState;
class RestoreState;
}  // namespace detail

class Backup {
 public:
  bool done() const;  // committed (or aborted) and answered; never waits
  // Outcomes per item and key, as Future; nullopt after `timeout`. Error: kClosed after a cancel,
  // kSystem with the CUDA error, kForkedChild.
  Result<std::optional<std::vector<std::vector<Outcome>>>> wait(Milliseconds timeout);
  // What is submitted to `stream` afterwards waits until the pages have been read: the engine may
  // overwrite them. kWrongState: the job ended before that, and why.
  Result<void> stream_wait(void* stream);
  void cancel();

 private:
  friend class detail::PageCacheState;
  friend class PageCache;
  std::shared_ptr<detail::BackupState> state_;
};

class Restore {
 public:
  bool done() const;  // arrived and compared; never waits
  std::size_t ranges() const;
  // Its bytes have arrived; whether they are right is known at the end of the job.
  bool range_done(std::size_t range) const;
  // What is submitted to `stream` afterwards waits for the range. kWrongState: the job ended
  // without it, and why.
  Result<void> stream_wait(std::size_t range, void* stream);
  // Pages before the first mismatch, per item; nullopt after `timeout`.
  Result<std::optional<std::vector<std::uint32_t>>> wait(Milliseconds timeout);
  void cancel();

 private:
  friend class detail::PageCacheState;
  friend class PageCache;
  std::shared_ptr<detail::RestoreState> state_;
};

class PageCache {
 public:
  // Requires: the client is attached (kNoNode otherwise). It may go before the cache, which is then
  // closed. Errors: the layout's (kInvalidArgument, names the part); registration's, which leave
  // nothing pinned and say what to do: kNoMemory (the limit of locked memory, or memory itself),
  // kWrongState (other code has registered it), kSystem (not allowed here). After the node's
  // restart with other memory the next call registers the new one.
  static Result<PageCache> open(Client& client, const KvLayout& layout, std::uint32_t value_len,
                                const PageCacheOptions& options = {});
  PageCache(PageCache&&) noexcept;
  PageCache& operator=(PageCache&&) noexcept;
  ~PageCache();  // waits for its jobs

  // Consumes the plans (as put_commit); on an error they are left as they were. Keys that were not
  // prepared are skipped. Errors: kInvalidArgument (names item, pool and index), kWrongState (plan
  // used up), kClosed, kForkedChild, kLimit (too many jobs at once), kNoMemory and kSystem
  // (submission), and registration's as of open().
  Result<Backup> backup(std::span<const BackupItem> items, const BackupOptions& options = {});
  // The plans stay the caller's, to be released after the job (earlier is safe, see above). Pages
  // that are misses of their plan already are not copied. Errors as backup(); kInvalidArgument too
  // for a page number that comes twice in a pool: one page cannot hold two values.
  Result<Restore> restore(std::span<const RestoreItem> items, const RestoreOptions& options = {});

  std::string describe() const;  // engine, device, layout: for people
  // The engine that a batch of so many values would use: "host", "staged", "direct", "pieces".
  std::string engine_for(std::size_t values, bool restore) const;
  PageCacheStats stats() const;

 private:
  PageCache() = default;
  std::shared_ptr<detail::PageCacheState> state_;
};

}  // namespace orlop
