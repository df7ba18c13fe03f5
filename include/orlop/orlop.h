// SPDX-License-Identifier: Apache-2.0
// Orlop's C API (C99): an engine worker's door to the node of its host.
//
//   orlop_client_options options = {.struct_size = sizeof options};
//   orlop_client* client = NULL;
//   if (orlop_open(&options, &client) != ORLOP_OK) puts(orlop_error_message());
//   orlop_namespace* ns = NULL;
//   orlop_open_namespace_json(client, orlop_text_of(descriptor_json), &ns);
//   // write: reserve, copy, commit
//   orlop_put_start(client, ns, &keys, NULL, &plan);
//   for (size_t i = 0; i < orlop_put_plan_size(plan); ++i)
//     if (orlop_put_plan_outcome(plan, i) == ORLOP_OUTCOME_PREPARED)
//       orlop_copy_in(plan, i, pages[i], value_len);
//   orlop_put_commit(client, plan, &future);
//   // read: pin, copy, release
//   orlop_get_start(client, ns, &keys, NULL, &handle, &result);
//   orlop_get_transfer(client, handle, ORLOP_WHOLE_PREFIX, &views);
//   for (size_t i = 0; i < orlop_read_plan_size(views); ++i)
//     if (orlop_copy_out(views, i, 0, pages[i], value_len) != ORLOP_OK) break;
//   orlop_release_views(client, views);
//
// What is promised about memory, death of the node, deadlines and forks is written in
// orlop/client.h; every call here is the call of that name there.
//
// Errors   A call that can fail returns an orlop_status. orlop_error_message() is the text of the
//          last call that failed on this thread: it names the argument, the index and the remedy.
//          It stays until the next failing call of this thread; a call that succeeds leaves it.
//          After an error nothing is reserved or changed, and `out` parameters are NULL.
//          A miss, a value that exists, a full pool are answers, not errors.
// NULL     Any handle or pointer may be NULL: the call answers ORLOP_INVALID_ARGUMENT and names
//          it (calls that return a value and no status: 0). Where NULL has a meaning, it is said.
//          A handle of the wrong kind (a cast) answers ORLOP_WRONG_STATE.
// Owning   What a call gives through `out` is the caller's, until the _free of its type, which
//          takes NULL too. Ending (commit, abort, transfer, cancel, release, close) is not
//          freeing: an ended object answers ORLOP_WRONG_STATE to every use, and is then freed.
//          Freeing what has not ended ends it: a put is aborted, a handle cancelled, views are
//          released, a client closed; a future is only forgotten, its commit goes on. Free in any
//          order. Using a handle after its _free is undefined, as with free().
//          Arguments (keys, texts, options, arrays) are read during the call and never kept.
// Threads  orlop_client, orlop_namespace and orlop_future: any threads at once, but nobody may
//          free one while another thread is in a call with it. A plan or handle: one thread at a
//          time; a commit, abort or release that comes upon a copy of another thread answers
//          ORLOP_WRONG_STATE and changes nothing. A thread in a call must not be cancelled
//          (pthread_cancel).
// Fork     In a forked child every call that would use the parent's client answers
//          ORLOP_FORKED_CHILD, and _free frees only the child's copy. Open a new client there.
// Unload   The library cannot be unloaded: dlclose() returns and leaves it in place, because its
//          threads and thread-exit handlers may still run its code.
// Structs  `struct_size` comes first; set it to sizeof. A struct of an older header is shorter:
//          what it lacks has its default (in a result: is not written). One of a newer header is
//          longer: as an argument it is accepted while the unknown tail is zero and else refused;
//          of a result the unknown tail is zeroed. Zero is every field's default.
// Texts    UTF-8 with a length, no terminator needed; {NULL, 0} is the empty one.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ORLOP_EXPORT __attribute__((visibility("default")))
#else
#define ORLOP_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif
// NOLINTBEGIN(modernize-use-using,modernize-use-nullptr): C has no other words

// ---- Versions

// Of this header's functions and structs. Grows when something is added; what exists stays.
#define ORLOP_API_VERSION 3

// ORLOP_API_VERSION of the library that was loaded; at least the header's, or calls are missing.
ORLOP_EXPORT uint32_t orlop_api_version(void);

// The library's release, "0.1.0". Static text.
ORLOP_EXPORT const char* orlop_version(void);

// What client and node must have in common to share memory; a node of another one is refused with
// ORLOP_ABI_MISMATCH.
ORLOP_EXPORT uint32_t orlop_node_abi_version(void);

// ---- Status, outcomes, reasons

// Operating errors, the same numbers and words in all languages (orlop/error.h).
typedef enum orlop_status {
  ORLOP_OK = 0,
  ORLOP_INVALID_ARGUMENT = 1,    // the message names argument, index and remedy
  ORLOP_WRONG_STATE = 2,         // plan or handle used twice, of the wrong kind, after its end
  ORLOP_FORKED_CHILD = 3,        // object of the parent of this process; open a new client
  ORLOP_NO_NODE = 4,             // no node answers at the socket
  ORLOP_REFUSED = 5,             // the node refused us: other user, limits
  ORLOP_ABI_MISMATCH = 6,        // client and node are of different versions; both are named
  ORLOP_DEADLINE = 7,            // the caller's deadline passed
  ORLOP_NO_MEMORY = 8,           // memory ran out
  ORLOP_NAMESPACE_CONFLICT = 9,  // same digest, other descriptor; or unknown descriptor fields
  ORLOP_LIMIT = 10,              // a fixed limit is exhausted (namespaces, clients, plans)
  ORLOP_ADDRESS_IN_USE = 11,     // another daemon owns the socket
  ORLOP_SYSTEM = 12,             // an operating system call failed; call and errno in the message
  ORLOP_CORRUPT = 13,            // bytes do not match their checksum: they must not be used
  ORLOP_CLOSED = 14              // the object's client was closed
} orlop_status;

// What happened to one key of a put (orlop/outcome.h).
typedef enum orlop_outcome {
  ORLOP_OUTCOME_PREPARED = 0,      // put_start: memory reserved, write it and commit
  ORLOP_OUTCOME_STORED = 1,        // commit: readable now
  ORLOP_OUTCOME_EXISTS = 2,        // a readable value was there, or came first
  ORLOP_OUTCOME_IN_FLIGHT = 3,     // somebody else is writing it
  ORLOP_OUTCOME_GROUP_SPLIT = 4,   // another member of its group exists or is in flight
  ORLOP_OUTCOME_NOT_ADMITTED = 5,  // the admission policy refused, or the node is draining
  ORLOP_OUTCOME_NO_SPACE = 6,      // nothing could be freed in time
  ORLOP_OUTCOME_OVER_QUOTA = 7,    // this client's cap of prepared bytes is reached
  ORLOP_OUTCOME_FLUSHED = 8,       // the namespace was flushed since put_start
  ORLOP_OUTCOME_EVICTED = 9,       // commit: the group is no longer this plan's
  ORLOP_OUTCOME_NO_NODE = 10,      // no node answered in time: not stored
  ORLOP_OUTCOME_ABORTED = 11       // the plan was aborted, or is over
} orlop_outcome;
#define ORLOP_OUTCOME_COUNT 12

// Why a read is shorter than asked for: the reason of its first miss (orlop/outcome.h).
typedef enum orlop_miss_reason {
  ORLOP_MISS_NONE = 0,              // all keys hit
  ORLOP_MISS_NOT_FOUND = 1,         // no readable value has this key in this namespace
  ORLOP_MISS_RACED = 2,             // it was there and left while being pinned
  ORLOP_MISS_LEDGER_FULL = 3,       // no free ledger cells
  ORLOP_MISS_PIN_BUDGET = 4,        // the client's pin budget is used up
  ORLOP_MISS_NOT_ATTACHED = 5,      // no node yet, or the node's memory has gone
  ORLOP_MISS_GROUP_INCOMPLETE = 6,  // the reader's group has a missing member
  ORLOP_MISS_MISMATCH = 7,          // the bytes did not match their checksum
  ORLOP_MISS_DEADLINE = 8           // the deadline passed
} orlop_miss_reason;
#define ORLOP_MISS_REASON_COUNT 9

// Stable lower-case names for logs ("invalid_argument", "group_split", "not_found"); "ok" for
// ORLOP_OK, "unknown" for a number that is none of them. Static text. They take numbers, not the
// enums, because an enum of C++ must not hold any other.
ORLOP_EXPORT const char* orlop_status_name(int status);
ORLOP_EXPORT const char* orlop_outcome_name(int outcome);
ORLOP_EXPORT const char* orlop_miss_reason_name(int reason);

// Text of the last call that failed on this thread; "" when none has. Lives until the next failing
// call of this thread, or its end. At most 2,047 bytes; longer texts are cut.
ORLOP_EXPORT const char* orlop_error_message(void);

// ---- Bytes, texts, keys

// Bytes that a call reads.
typedef struct orlop_bytes {
  const void* data;
  size_t size;
} orlop_bytes;

// Memory that a call writes.
typedef struct orlop_buffer {
  void* data;
  size_t size;
} orlop_buffer;

// UTF-8 text that a call reads.
typedef struct orlop_text {
  const char* data;
  size_t size;
} orlop_text;

// A terminated string as text; NULL is the empty text.
static inline orlop_text orlop_text_of(const char* terminated) {
  orlop_text text = {terminated, 0};
  while (terminated != NULL && terminated[text.size] != 0) ++text.size;
  return text;
}

// An ordered list of 1 to 65,535 keys, each any 1 to 4,096 bytes, in one of two forms:
//   array   `items`: one {data, size} a key; `packed` is NULL
//   packed  `packed`: `count` keys of `key_len` bytes one after another; `items` is NULL
// No memory is allocated per key.
typedef struct orlop_keys {
  size_t count;
  const orlop_bytes* items;
  const void* packed;
  size_t key_len;
} orlop_keys;

// ---- Client

typedef struct orlop_client orlop_client;

// How to open a client; NULL instead of it: all defaults.
typedef struct orlop_client_options {
  size_t struct_size;
  orlop_text socket;       // empty: $ORLOP_SOCKET, else the node's default place
  orlop_text name;         // shown by `orlop status`; empty: the program's name
  int64_t call_budget_ms;  // calls that need the server wait at most this long; 0: 200
  int64_t handle_ttl_ms;   // get handles never transferred are cancelled after this; 0: 30,000
  uint64_t ledger_cells;   // pages that can be pinned at once, below 2^32; 0: 1,000,000
  // Called from the library's own thread when the client becomes attached (1) or loses its node
  // (0), with the context; maybe before orlop_open has returned and set its `out`. May call
  // orlop_ready, orlop_close and orlop_client_free, which return at once (that thread closes the
  // client when the callback has returned), nothing else; must not throw or jump out.
  void (*on_ready)(void* context, int ready);
  void* on_ready_context;
} orlop_client_options;

// Never waits for a node: the client attaches in the background, and again after a restart of the
// node. Until then every read is a miss ORLOP_MISS_NOT_ATTACHED and every put answers
// ORLOP_OUTCOME_NO_NODE.
ORLOP_EXPORT orlop_status orlop_open(const orlop_client_options* options, orlop_client** out);

// Waits until the copies that run in other threads are over; no new one begins. Then ends every
// plan and handle (they answer ORLOP_CLOSED from now on; plans with registered copies end after
// them, or with the process), waits at most the call budget for commits in flight, detaches. A
// second close only waits for the first.
ORLOP_EXPORT orlop_status orlop_close(orlop_client* client);

// Closes and frees.
ORLOP_EXPORT void orlop_client_free(orlop_client* client);

// 1: attached, calls go through. Never blocks.
ORLOP_EXPORT int orlop_ready(const orlop_client* client);

// Until ready. ORLOP_DEADLINE after timeout_ms; the message says why not.
ORLOP_EXPORT orlop_status orlop_wait_ready(const orlop_client* client, int64_t timeout_ms);

// Why the client is not attached: status and message of the last attempt. ORLOP_OK while ready.
ORLOP_EXPORT orlop_status orlop_last_attach_error(const orlop_client* client);

// Identity of the memory contents, changed only by a cold start of the node; 0 while not attached.
ORLOP_EXPORT uint64_t orlop_segment_id(const orlop_client* client);

// Identity of the node's present life, changed by every start; 0 before the first attach and after
// its memory is gone. While a killed server is away and after orlop_close it is the last one known.
ORLOP_EXPORT uint64_t orlop_incarnation(const orlop_client* client);

// One round trip to the node. ORLOP_NO_NODE: none within the call budget.
ORLOP_EXPORT orlop_status orlop_ping(orlop_client* client);

// Counters of one client since it was opened, and gauges (open_*, pinned_bytes, pin_cap_bytes).
typedef struct orlop_client_stats {
  size_t struct_size;
  uint64_t gets, keys_asked, keys_hit, bytes_read;
  uint64_t puts, keys_put, keys_stored, bytes_written;
  uint64_t misses[16];    // reads by their orlop_miss_reason
  uint64_t outcomes[16];  // keys of puts by their orlop_outcome
  uint64_t mismatches, attaches, resumes, aborted_late;
  uint64_t open_read_plans, open_put_plans, open_handles;
  uint64_t pinned_bytes, pin_cap_bytes;
} orlop_client_stats;

// stats->struct_size is set by the caller.
ORLOP_EXPORT orlop_status orlop_stats(const orlop_client* client, orlop_client_stats* stats);

// ---- Namespaces

// What makes bytes interchangeable: two clients share values exactly when all fields agree.
// Per-request parts (salt, LoRA) belong into keys. Field by field: orlop/namespace.h.
typedef struct orlop_namespace_descriptor {
  size_t struct_size;
  orlop_text engine;          // required, as are the next four
  orlop_text layout;          // the engine's layout and its version
  orlop_text model;           // model id
  orlop_text revision;        // weights digest or revision
  orlop_text dtype;           // of the KV cache, scales identity included
  orlop_text component;       // kv, swa, mamba ...; empty: "kv"
  orlop_text codec;           // empty: "none"
  uint32_t page_tokens;       // tokens of a page; required
  uint32_t value_len;         // bytes of one value, fixed per namespace; required
  uint32_t tp_rank, tp_size;  // rank coordinates; a size of 0 is 1
  uint32_t pp_rank, pp_size;
  uint32_t cp_rank, cp_size;
  uint32_t first_layer, layers;
  uint32_t first_head, heads;
} orlop_namespace_descriptor;

typedef struct orlop_namespace orlop_namespace;

// Never waits longer than the call budget. Without a node the namespace is unresolved and resolved
// after the attach. Errors: descriptor invalid, ORLOP_NAMESPACE_CONFLICT, ORLOP_LIMIT.
ORLOP_EXPORT orlop_status orlop_open_namespace(orlop_client* client,
                                               const orlop_namespace_descriptor* descriptor,
                                               orlop_namespace** out);

// The same from the descriptor's JSON form. Unknown fields are refused, with the nearest known one.
ORLOP_EXPORT orlop_status orlop_open_namespace_json(orlop_client* client, orlop_text json,
                                                    orlop_namespace** out);

// Frees the handle; the namespace stays open in its client, plans of it are not concerned.
ORLOP_EXPORT void orlop_namespace_free(orlop_namespace* ns);

// Bytes of one value.
ORLOP_EXPORT uint32_t orlop_namespace_value_len(const orlop_namespace* ns);

// 1: the node knows it.
ORLOP_EXPORT int orlop_namespace_resolved(const orlop_namespace* ns);

// Canonical JSON of a descriptor, one line, not terminated: the form that is stored, compared and
// shown. *size is its length. Written only when `capacity` bytes at `buffer` hold it, else
// ORLOP_INVALID_ARGUMENT; buffer NULL and capacity 0 only ask for the size.
ORLOP_EXPORT orlop_status orlop_canonical_text(const orlop_namespace_descriptor* descriptor,
                                               char* buffer, size_t capacity, size_t* size);

// The same without the rank coordinates.
ORLOP_EXPORT orlop_status orlop_family_text(const orlop_namespace_descriptor* descriptor,
                                            char* buffer, size_t capacity, size_t* size);

// Reads a JSON descriptor into `descriptor` (struct_size set by the caller). Its texts lie in
// `buffer`; their bytes together are *size, never more than the JSON's; as above.
ORLOP_EXPORT orlop_status orlop_parse_descriptor(orlop_text json,
                                                 orlop_namespace_descriptor* descriptor,
                                                 char* buffer, size_t capacity, size_t* size);

// ---- Write: put_start, copy, put_commit

typedef struct orlop_put_plan orlop_put_plan;
typedef struct orlop_future orlop_future;

#define ORLOP_PUT_REPLICATE 1u      // accepted and kept; used once there are other tiers
#define ORLOP_PUT_WRITE_THROUGH 2u  // the same
#define ORLOP_PUT_DEADLINE 4u       // deadline_ms is set

// How to put; NULL instead of it: all defaults.
typedef struct orlop_put_options {
  size_t struct_size;
  const uint32_t* atomic_group_lens;  // positive, sum = keys; none: one key per group
  size_t atomic_group_count;
  orlop_bytes parent;             // the key before keys[0]; {NULL, 0}: none
  const uint8_t* replicate_mask;  // 0 or 1 per key, uniform inside a group; or none
  size_t replicate_mask_count;
  uint64_t flags;       // ORLOP_PUT_...; unknown bits are refused
  int64_t deadline_ms;  // with ORLOP_PUT_DEADLINE: 0 or more; else the call budget
} orlop_put_options;

// Reserves memory for unique keys. One round trip. Without a node in time: a plan whose outcomes
// are all ORLOP_OUTCOME_NO_NODE. ORLOP_LIMIT: too many open puts, or more keys than the channel
// carries.
ORLOP_EXPORT orlop_status orlop_put_start(orlop_client* client, const orlop_namespace* ns,
                                          const orlop_keys* keys, const orlop_put_options* options,
                                          orlop_put_plan** out);

// Keys of the put, and how many of them got memory; 0 after the plan's end.
ORLOP_EXPORT size_t orlop_put_plan_size(const orlop_put_plan* plan);
ORLOP_EXPORT size_t orlop_put_plan_prepared(const orlop_put_plan* plan);

// ORLOP_OUTCOME_PREPARED, or why there is no memory; ORLOP_OUTCOME_ABORTED when there is no key i.
ORLOP_EXPORT orlop_outcome orlop_put_plan_outcome(const orlop_put_plan* plan, size_t i);

// Of NO_SPACE, OVER_QUOTA and NO_NODE: the state of the pool in words; else empty. Valid until the
// plan's end; not terminated.
ORLOP_EXPORT orlop_text orlop_put_plan_explanation(const orlop_put_plan* plan);

// Writable bytes of key i, until commit or abort. Whoever writes through them is responsible for
// being done before commit; the checksum is then computed at commit. {NULL, 0} unless prepared.
ORLOP_EXPORT orlop_buffer orlop_put_memory(const orlop_put_plan* plan, size_t i);

// Copies value_len bytes and computes their checksum in one pass.
ORLOP_EXPORT orlop_status orlop_copy_in(orlop_put_plan* plan, size_t i, const void* source,
                                        size_t size);

// A checksum computed elsewhere (a GPU kernel) for the memory of key i.
ORLOP_EXPORT orlop_status orlop_set_checksum(orlop_put_plan* plan, size_t i, uint64_t checksum);

// A copy that somebody else runs (GPU): the plan does not end before every registered copy is
// reported done. Until then an abort only marks it and a commit is refused. A copy that failed
// (success 0) keeps the plan until this process ends.
ORLOP_EXPORT orlop_status orlop_put_register_copy(orlop_put_plan* plan, uint64_t* copy);
ORLOP_EXPORT orlop_status orlop_put_copy_done(orlop_put_plan* plan, uint64_t copy, int success);

// Reports a copy of a plan, put or read, that has ended or was freed under the copy.
ORLOP_EXPORT orlop_status orlop_copy_done(orlop_client* client, uint64_t copy, int success);

// Plan blob {"ORLOPPL1", count, addresses[count]} of the prepared keys, in key order, *count words
// in all, valid until the plan ends. ORLOP_LIMIT: all blobs together fill the channel's part for
// them.
ORLOP_EXPORT orlop_status orlop_put_blob(orlop_put_plan* plan, const uint64_t** words,
                                         size_t* count);

// Ends the plan: posts the commit and returns, does not wait. Only after the bytes are written.
// out: NULL when the outcomes do not matter. ORLOP_WRONG_STATE with the plan left usable:
// registered copies are not done.
ORLOP_EXPORT orlop_status orlop_put_commit(orlop_client* client, orlop_put_plan* plan,
                                           orlop_future** out);

// Ends the plan: nothing is stored.
ORLOP_EXPORT orlop_status orlop_put_abort(orlop_client* client, orlop_put_plan* plan);

// Aborts the plan unless it has ended, and frees it.
ORLOP_EXPORT void orlop_put_plan_free(orlop_put_plan* plan);

// 1: the outcomes are there. Never blocks.
ORLOP_EXPORT int orlop_future_ready(const orlop_future* future);

// Keys of the put.
ORLOP_EXPORT size_t orlop_future_size(const orlop_future* future);

// Writes one outcome per key; `count` is the size. ORLOP_DEADLINE after timeout_ms: ask again.
// Answered exactly once by the node, or ORLOP_OUTCOME_NO_NODE when its memory or the client is
// gone.
ORLOP_EXPORT orlop_status orlop_future_wait(const orlop_future* future, int64_t timeout_ms,
                                            orlop_outcome* outcomes, size_t count);

// The commit goes on.
ORLOP_EXPORT void orlop_future_free(orlop_future* future);

// put_start, copy_in, put_commit, wait. One buffer of value_len bytes and one outcome a key; both
// counts are keys->count.
ORLOP_EXPORT orlop_status orlop_put(orlop_client* client, const orlop_namespace* ns,
                                    const orlop_keys* keys, const orlop_bytes* buffers,
                                    size_t buffer_count, const orlop_put_options* options,
                                    orlop_outcome* outcomes, size_t outcome_count);

// ---- Read: get_start, get_transfer, copy, release_views

typedef struct orlop_get_handle orlop_get_handle;
typedef struct orlop_read_plan orlop_read_plan;

// How to get; NULL instead of it: all defaults.
typedef struct orlop_get_options {
  size_t struct_size;
  const uint32_t* atomic_group_lens;  // the reader's groups; none: one key per group
  size_t atomic_group_count;
} orlop_get_options;

// What a get found. Example: groups [2, 3] and 4 pages there: transferable are 2.
typedef struct orlop_get_result {
  size_t struct_size;
  uint32_t raw_prefix_hit_len;  // keys pinned as a prefix before rounding to groups
  uint32_t transferable_len;    // rounded down to whole groups
  uint32_t prefix_hit_groups;
  uint32_t first_miss_index;  // = number of keys if all hit
  uint32_t first_miss_group_index;
  uint32_t all_hit;  // 0 or 1
  uint32_t reason;   // orlop_miss_reason of the first miss
  uint32_t padding;  // 0
} orlop_get_result;

// Pins the longest prefix that is here. No round trip, no system call. result: NULL when not
// wanted; else its struct_size is set by the caller.
ORLOP_EXPORT orlop_status orlop_get_start(orlop_client* client, const orlop_namespace* ns,
                                          const orlop_keys* keys, const orlop_get_options* options,
                                          orlop_get_handle** out, orlop_get_result* result);

// One decision for several ranks of one family: the prefix that every rank's namespace has, all of
// it pinned by this client.
ORLOP_EXPORT orlop_status orlop_get_start_cohort(orlop_client* client,
                                                 const orlop_namespace* const* ranks,
                                                 size_t rank_count, const orlop_keys* keys,
                                                 const orlop_get_options* options,
                                                 orlop_get_handle** out, orlop_get_result* result);

// The result again, also after the handle's end.
ORLOP_EXPORT orlop_status orlop_handle_result(const orlop_get_handle* handle,
                                              orlop_get_result* result);

#define ORLOP_WHOLE_PREFIX UINT32_MAX

// Ends the handle and gives its pages, the first consume_prefix_len of them: at most
// transferable_len and on a group boundary, or ORLOP_WHOLE_PREFIX. A wrong length leaves the handle
// usable.
ORLOP_EXPORT orlop_status orlop_get_transfer(orlop_client* client, orlop_get_handle* handle,
                                             uint32_t consume_prefix_len, orlop_read_plan** out);

// Ends the handle and unpins.
ORLOP_EXPORT orlop_status orlop_cancel_get(orlop_client* client, orlop_get_handle* handle);

// Cancels the handle unless it has ended, and frees it.
ORLOP_EXPORT void orlop_get_handle_free(orlop_get_handle* handle);

// Pages; ranks (1, or the cohort's size); pages before the first mismatch. 0 after the plan's end.
ORLOP_EXPORT size_t orlop_read_plan_size(const orlop_read_plan* plan);
ORLOP_EXPORT size_t orlop_read_plan_ranks(const orlop_read_plan* plan);
ORLOP_EXPORT size_t orlop_valid_len(const orlop_read_plan* plan);

// Bytes of page i of a rank (0 unless a cohort), checked against the checksum on first access,
// valid until the plan ends. ORLOP_CORRUPT: mismatch, here or on an earlier page; it is reported to
// the node and makes this page and all after it misses.
ORLOP_EXPORT orlop_status orlop_view(orlop_read_plan* plan, size_t i, size_t rank,
                                     orlop_bytes* bytes);

// The same without the check; {NULL, 0} when there is no such page.
ORLOP_EXPORT orlop_bytes orlop_view_unverified(const orlop_read_plan* plan, size_t i, size_t rank);

// Copies value_len bytes and checks them in one pass. ORLOP_CORRUPT as of orlop_view: what was
// written to the destination must not be used.
ORLOP_EXPORT orlop_status orlop_copy_out(orlop_read_plan* plan, size_t i, size_t rank,
                                         void* destination, size_t size);

// What a restore kernel compares with (0 when there is no such page), and what it found.
ORLOP_EXPORT uint64_t orlop_expected_checksum(const orlop_read_plan* plan, size_t i, size_t rank);
ORLOP_EXPORT orlop_status orlop_report_mismatch(orlop_read_plan* plan, size_t i, size_t rank);

// As of puts; blob: page-major, page 0 of all ranks first.
ORLOP_EXPORT orlop_status orlop_read_register_copy(orlop_read_plan* plan, uint64_t* copy);
ORLOP_EXPORT orlop_status orlop_read_copy_done(orlop_read_plan* plan, uint64_t copy, int success);
ORLOP_EXPORT orlop_status orlop_read_blob(orlop_read_plan* plan, const uint64_t** words,
                                          size_t* count);

// Ends the plan and unpins.
ORLOP_EXPORT orlop_status orlop_release_views(orlop_client* client, orlop_read_plan* plan);

// Releases the plan unless it has ended, and frees it.
ORLOP_EXPORT void orlop_read_plan_free(orlop_read_plan* plan);

// Copies the longest valid prefix into buffers, one of value_len bytes a key; *copied is its
// length. A miss is no error: *copied is 0.
ORLOP_EXPORT orlop_status orlop_get(orlop_client* client, const orlop_namespace* ns,
                                    const orlop_keys* keys, const orlop_buffer* buffers,
                                    size_t buffer_count, const orlop_get_options* options,
                                    uint32_t* copied);

// ---- Existence, removal

// Pins nothing. *prefix_len: keys present from the start on. bitmap: NULL when not wanted; else bit
// i % 8 of byte i / 8 is key i, `bitmap_size` at least (keys + 7) / 8 bytes, all of them written.
ORLOP_EXPORT orlop_status orlop_exists(orlop_client* client, const orlop_namespace* ns,
                                       const orlop_keys* keys, uint32_t* prefix_len,
                                       uint8_t* bitmap, size_t bitmap_size);

// Removes the writers' whole groups of these keys; *slots (or NULL): how many values went.
// ORLOP_NO_NODE: no answer in time; what was asked may still be carried out.
ORLOP_EXPORT orlop_status orlop_remove(orlop_client* client, const orlop_namespace* ns,
                                       const orlop_keys* keys, uint64_t* slots);

// Forgets every value of the namespace: a plan begun after flush returned never sees bytes from
// before. *namespaces (or NULL): how many were flushed, 1. ORLOP_NO_NODE: as of remove.
ORLOP_EXPORT orlop_status orlop_flush(orlop_client* client, const orlop_namespace* ns,
                                      uint64_t* namespaces);

// The same for every namespace of the family that the node knows: all ranks (a weight update).
ORLOP_EXPORT orlop_status orlop_flush_family(orlop_client* client, const orlop_namespace* ns,
                                             uint64_t* namespaces);

// ---- Pages of an engine's cache: GPU memory, or CPU memory on machines without one
//
//   orlop_page_cache_open(client, &layout, value_len, NULL, &cache);   // once
//   orlop_backup_pages(cache, &backup_item, 1, stream, &backup);       // ends the put plan
//   orlop_backup_wait(backup, timeout_ms, outcomes, count);
//   orlop_restore_pages(cache, &restore_item, 1, &options, &restore);
//   orlop_restore_stream_wait(restore, 0, stream);   // the first layers may be used
//   orlop_restore_wait(restore, timeout_ms, &valid, 1);
//
// What is promised is written in orlop/gpu.h, the layout in orlop/kv_layout.h. A stream is a
// cudaStream_t of the layout's device (waits may be of any); NULL: begin at once.

typedef enum orlop_engine {
  ORLOP_ENGINE_AUTO = 0,    // by the machine's table of measurements
  ORLOP_ENGINE_HOST = 1,    // the CPU; both sides are its memory
  ORLOP_ENGINE_STAGED = 2,  // long strips by copy engines, scattered inside the GPU
  ORLOP_ENGINE_DIRECT = 3,  // a few thread blocks read and write host memory
  ORLOP_ENGINE_PIECES = 4   // copy engines on the pieces
} orlop_engine;

// "auto", "host", "staged", "direct", "pieces"; "unknown" for a number that is none. Static text.
ORLOP_EXPORT const char* orlop_engine_name(int engine);

// Pages of one numbering.
typedef struct orlop_kv_pool {
  orlop_text name;           // in errors and descriptions
  uint32_t pages_per_value;  // engine pages that one value takes from this pool; 0: 1
  uint32_t padding;          // 0
} orlop_kv_pool;

// One tensor of one layer. Strides in bytes, in any order and with any gaps.
typedef struct orlop_kv_part {
  orlop_text name;  // "layers.3.k": in errors and descriptions
  uint32_t layer;   // not below the part before
  uint32_t pool;    // index into the layout's pools
  uint64_t base;    // address of page 0, head 0, token 0
  uint64_t pages;   // page numbers are below it
  uint64_t page_stride;
  uint32_t heads;   // 0: 1
  uint32_t tokens;  // of one engine page; 0: 1
  uint64_t head_stride;
  uint64_t token_stride;
  uint64_t row_bytes;  // adjacent bytes of one head of one token
} orlop_kv_part;

#define ORLOP_ORDER_HEAD_TOKEN_CHANNEL 0u
#define ORLOP_ORDER_TOKEN_HEAD_CHANNEL 1u

typedef struct orlop_kv_layout {
  size_t struct_size;
  const orlop_kv_pool* pools;  // none: one, of one page a value
  size_t pool_count;
  const orlop_kv_part* parts;  // in the order of the value
  size_t part_count;
  uint32_t order;    // ORLOP_ORDER_... inside a part of the value
  uint32_t padding;  // 0
} orlop_kv_layout;

#define ORLOP_PAGE_CACHE_DEVICE 1u  // device is set

// How to open a page cache; NULL instead of it: all defaults.
typedef struct orlop_page_cache_options {
  size_t struct_size;
  uint32_t engine;  // orlop_engine
  uint32_t flags;   // ORLOP_PAGE_CACHE_...; unknown bits are refused
  int32_t device;   // CUDA's number; without the flag: where the layout's memory is
  uint32_t padding;
  uint64_t staging_bytes;  // GPU memory a direction; 0: 192 MiB
  // Told while value memory is registered with CUDA, on the calling thread; must not throw or jump
  // out.
  void (*progress)(void* context, uint64_t done_bytes, uint64_t all_bytes);
  void* progress_context;
  // Backups off a GPU go in bursts of at most so many bytes, 64 KiB or more, with the copy engine
  // free for an engine's own copies in between. 0: no bursts, the link's full rate.
  uint64_t backup_burst_bytes;
} orlop_page_cache_options;

typedef struct orlop_page_cache orlop_page_cache;
typedef struct orlop_backup orlop_backup;
typedef struct orlop_restore orlop_restore;

// Bytes of one value of the layout: what value_len of the namespace must be.
ORLOP_EXPORT orlop_status orlop_layout_value_len(const orlop_kv_layout* layout, uint64_t* bytes);

// The client must be attached (ORLOP_NO_NODE). ORLOP_INVALID_ARGUMENT names the part. Value memory
// could not be registered with CUDA, the text says what to do: ORLOP_NO_MEMORY (the limit of locked
// memory, or memory itself), ORLOP_WRONG_STATE (other code has registered it), ORLOP_SYSTEM (not
// allowed here).
ORLOP_EXPORT orlop_status orlop_page_cache_open(orlop_client* client, const orlop_kv_layout* layout,
                                                uint32_t value_len,
                                                const orlop_page_cache_options* options,
                                                orlop_page_cache** out);

// Waits for its jobs, then frees.
ORLOP_EXPORT void orlop_page_cache_free(orlop_page_cache* cache);

// Engine, device and layout for people; buffer, capacity and *size as of orlop_canonical_text.
ORLOP_EXPORT orlop_status orlop_page_cache_describe(const orlop_page_cache* cache, char* buffer,
                                                    size_t capacity, size_t* size);

// The engine that a batch of so many values would use; ORLOP_ENGINE_AUTO when there is no cache.
ORLOP_EXPORT orlop_engine orlop_page_cache_engine(const orlop_page_cache* cache, size_t values,
                                                  int restore);

// Counters since it was opened, and gauges (running, registered_bytes).
typedef struct orlop_page_cache_stats {
  size_t struct_size;
  uint64_t backups, restores;
  uint64_t pages_backed_up, bytes_backed_up;
  uint64_t pages_restored, bytes_restored;
  uint64_t mismatches, cancelled, failed;
  uint64_t running, registered_bytes;
} orlop_page_cache_stats;

// stats->struct_size is set by the caller.
ORLOP_EXPORT orlop_status orlop_page_cache_read_stats(const orlop_page_cache* cache,
                                                      orlop_page_cache_stats* stats);

// Numbers of pages of one pool.
typedef struct orlop_page_list {
  const int64_t* pages;
  size_t count;
} orlop_page_list;

// One list a pool: pages_per_value numbers for every key of the put, prepared or not.
typedef struct orlop_backup_item {
  orlop_put_plan* plan;
  const orlop_page_list* lists;
  size_t list_count;
} orlop_backup_item;

// One list a pool: pages_per_value numbers for every page of the plan.
typedef struct orlop_restore_item {
  orlop_read_plan* plan;
  const orlop_page_list* lists;
  size_t list_count;
  size_t rank;  // of a cohort's plan, else 0
} orlop_restore_item;

// Copies pages into the puts' memory, then commits them by itself. Ends the plans; on an error they
// are left as they were. out: NULL when nobody waits.
ORLOP_EXPORT orlop_status orlop_backup_pages(orlop_page_cache* cache,
                                             const orlop_backup_item* items, size_t item_count,
                                             void* stream, orlop_backup** out);

// 1: committed (or aborted) and answered. Never blocks.
ORLOP_EXPORT int orlop_backup_done(const orlop_backup* backup);

// Keys of all its puts together.
ORLOP_EXPORT size_t orlop_backup_size(const orlop_backup* backup);

// One outcome per key, item by item; `count` is the size. ORLOP_DEADLINE after timeout_ms: ask
// again. ORLOP_CLOSED: was cancelled; ORLOP_SYSTEM: the CUDA error.
ORLOP_EXPORT orlop_status orlop_backup_wait(orlop_backup* backup, int64_t timeout_ms,
                                            orlop_outcome* outcomes, size_t count);

// What is submitted to `stream` afterwards waits until the pages have been read. On the CPU: waits.
ORLOP_EXPORT orlop_status orlop_backup_stream_wait(orlop_backup* backup, void* stream);

// Submits nothing more; the plans are aborted when what was submitted is over.
ORLOP_EXPORT orlop_status orlop_backup_cancel(orlop_backup* backup);

// The backup goes on.
ORLOP_EXPORT void orlop_backup_free(orlop_backup* backup);

// Layers [first, end).
typedef struct orlop_layer_range {
  uint32_t first, end;
} orlop_layer_range;

// How to restore; NULL instead of it: all defaults.
typedef struct orlop_restore_options {
  size_t struct_size;
  void* stream;
  const orlop_layer_range* ranges;  // copied in this order, disjoint; none: all layers at once
  size_t range_count;
} orlop_restore_options;

// Copies values into pages and checks them. The plans stay the caller's; ending them under the copy
// is safe. No page number may come twice.
ORLOP_EXPORT orlop_status orlop_restore_pages(orlop_page_cache* cache,
                                              const orlop_restore_item* items, size_t item_count,
                                              const orlop_restore_options* options,
                                              orlop_restore** out);

// 1: arrived and compared. Never blocks.
ORLOP_EXPORT int orlop_restore_done(const orlop_restore* restore);

// Ranges of the job, at least 1; 1: this range has arrived (not yet compared).
ORLOP_EXPORT size_t orlop_restore_ranges(const orlop_restore* restore);
ORLOP_EXPORT int orlop_restore_range_done(const orlop_restore* restore, size_t range);

// What is submitted to `stream` afterwards waits for the range. On the CPU: waits.
ORLOP_EXPORT orlop_status orlop_restore_stream_wait(orlop_restore* restore, size_t range,
                                                    void* stream);

// Pages before the first mismatch, one number an item; what lies after it must not be used. Errors
// as of orlop_backup_wait.
ORLOP_EXPORT orlop_status orlop_restore_wait(orlop_restore* restore, int64_t timeout_ms,
                                             uint32_t* valid, size_t count);

ORLOP_EXPORT orlop_status orlop_restore_cancel(orlop_restore* restore);

// The restore goes on.
ORLOP_EXPORT void orlop_restore_free(orlop_restore* restore);

// NOLINTEND(modernize-use-using,modernize-use-nullptr)
#ifdef __cplusplus
}
#endif
