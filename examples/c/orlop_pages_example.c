// SPDX-License-Identifier: Apache-2.0
// Pages of an engine's KV cache into a node's memory and back into other pages, from plain C99.
//
//   cc -std=c99 orlop_pages_example.c $(pkg-config --cflags --libs orlop) -o orlop_pages_example
//   orlopd --socket /tmp/node.sock --capacity 64MiB &
//   ./orlop_pages_example /tmp/node.sock     # [SOCKET [MILLISECONDS TO WAIT FOR THE NODE]]
//
// The cache is in CPU memory here, so that it runs anywhere. One of a GPU differs in two things:
// `base` of the parts is a device address (what cudaMalloc gave), and a stream is a cudaStream_t
// instead of NULL: copies begin after what was submitted there, and stream_wait() does not block.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orlop/orlop.h"

enum { kPatienceMs = 10000, kKeys = 4 };
// The engine: a tensor [K or V][page][token][head][channel] a layer, numbers of 2 bytes.
enum { kLayers = 2, kHeads = 4, kTokens = 16, kRowBytes = 64 * 2, kEnginePages = 32 };
enum { kTokenBytes = kHeads * kRowBytes, kPageBytes = kTokens * kTokenBytes };
enum { kTensorBytes = 2 * kEnginePages * kPageBytes, kValueLen = kLayers * 2 * kPageBytes };

static unsigned char cache_memory[kLayers][kTensorBytes];

static void check(const char* call, orlop_status status) {
  if (status == ORLOP_OK) return;
  fprintf(stderr, "%s: %s: %s\n", call, orlop_status_name(status), orlop_error_message());
  exit(1);
}

// Where page `number` of a part (layer, K or V) lies.
static unsigned char* page_at(size_t layer, size_t kv, int64_t number) {
  return cache_memory[layer] + (kv * kEnginePages + (size_t)number) * kPageBytes;
}

// Says once where everything is. A value holds what one page has of all parts.
static orlop_page_cache* open_cache(orlop_client* client) {
  static const char* const names[kLayers * 2] = {"layers.0.k", "layers.0.v", "layers.1.k",
                                                 "layers.1.v"};
  orlop_kv_part parts[kLayers * 2];
  orlop_kv_layout layout = {.struct_size = sizeof layout};
  orlop_page_cache* cache = NULL;
  uint64_t bytes = 0;
  memset(parts, 0, sizeof parts);
  for (size_t i = 0; i < kLayers * 2; ++i) {
    parts[i].name = orlop_text_of(names[i]);
    parts[i].layer = (uint32_t)(i / 2);
    parts[i].base = (uint64_t)(uintptr_t)page_at(i / 2, i % 2, 0);
    parts[i].pages = kEnginePages;
    parts[i].page_stride = kPageBytes;
    parts[i].heads = kHeads;
    parts[i].head_stride = kRowBytes;
    parts[i].tokens = kTokens;
    parts[i].token_stride = kTokenBytes;
    parts[i].row_bytes = kRowBytes;
  }
  layout.parts = parts;
  layout.part_count = kLayers * 2;
  check("layout_value_len", orlop_layout_value_len(&layout, &bytes));
  printf("a value has %" PRIu64 " bytes\n", bytes);
  // Nothing of the description has to stay.
  check("page_cache_open", orlop_page_cache_open(client, &layout, kValueLen, NULL, &cache));
  printf("engine %s\n", orlop_engine_name(orlop_page_cache_engine(cache, kKeys, 0)));
  return cache;
}

// One page of the engine a key; the library commits by itself when they have been copied.
static void back_up(orlop_client* client, const orlop_namespace* ns, orlop_page_cache* cache,
                    const orlop_keys* keys, const int64_t* pages) {
  orlop_put_plan* plan = NULL;
  orlop_backup* backup = NULL;
  orlop_outcome outcomes[kKeys];
  check("put_start", orlop_put_start(client, ns, keys, NULL, &plan));
  const orlop_page_list list = {pages, kKeys};
  const orlop_backup_item item = {plan, &list, 1};
  check("backup_pages", orlop_backup_pages(cache, &item, 1, NULL, &backup));
  orlop_put_plan_free(plan);  // it has ended: the backup has what it needs
  // From here on, in the order of the stream, the engine may overwrite the pages.
  check("backup_stream_wait", orlop_backup_stream_wait(backup, NULL));
  check("backup_wait", orlop_backup_wait(backup, kPatienceMs, outcomes, kKeys));
  for (size_t i = 0; i < kKeys; ++i)
    printf("backup  page %" PRId64 ": %s\n", pages[i], orlop_outcome_name(outcomes[i]));
  orlop_backup_free(backup);
}

// Layer by layer: a forward pass may begin with the first while the next are on their way.
static uint32_t restore(orlop_client* client, const orlop_namespace* ns, orlop_page_cache* cache,
                        const orlop_keys* keys, const int64_t* pages) {
  static const orlop_layer_range ranges[kLayers] = {{0, 1}, {1, 2}};
  orlop_get_handle* handle = NULL;
  orlop_read_plan* views = NULL;
  orlop_restore* job = NULL;
  uint32_t valid = 0;
  check("get_start", orlop_get_start(client, ns, keys, NULL, &handle, NULL));
  check("get_transfer", orlop_get_transfer(client, handle, ORLOP_WHOLE_PREFIX, &views));
  const orlop_page_list list = {pages, orlop_read_plan_size(views)};
  const orlop_restore_item item = {.plan = views, .lists = &list, .list_count = 1};
  orlop_restore_options options = {.struct_size = sizeof options};
  options.ranges = ranges;
  options.range_count = kLayers;
  check("restore_pages", orlop_restore_pages(cache, &item, 1, &options, &job));
  for (size_t range = 0; range < orlop_restore_ranges(job); ++range) {
    check("restore_stream_wait", orlop_restore_stream_wait(job, range, NULL));
    printf("restore layer %d is here\n", (int)range);
  }
  // Only now are the bytes known to be right: their checksums have been compared.
  check("restore_wait", orlop_restore_wait(job, kPatienceMs, &valid, 1));
  orlop_restore_free(job);
  orlop_read_plan_free(views);
  orlop_get_handle_free(handle);
  return valid;
}

int main(int argc, char** argv) {
  static const int64_t from[kKeys] = {3, 17, 4, 30};
  static const int64_t to[kKeys] = {9, 8, 21, 0};
  orlop_client_options options = {.struct_size = sizeof options};
  orlop_namespace_descriptor descriptor = {.struct_size = sizeof descriptor};
  orlop_client* client = NULL;
  orlop_namespace* ns = NULL;
  options.name = orlop_text_of("pages-example");
  if (argc > 1) options.socket = orlop_text_of(argv[1]);  // else $ORLOP_SOCKET or the default
  const long patience_ms = argc > 2 ? strtol(argv[2], NULL, 10) : kPatienceMs;
  check("open", orlop_open(&options, &client));
  check("wait_ready", orlop_wait_ready(client, patience_ms));
  descriptor.engine = orlop_text_of("example");
  descriptor.layout = orlop_text_of("example-1/paged");
  descriptor.model = orlop_text_of("tiny");
  descriptor.revision = orlop_text_of("r1");
  descriptor.dtype = orlop_text_of("bf16");
  descriptor.page_tokens = kTokens;
  descriptor.value_len = kValueLen;
  check("open_namespace", orlop_open_namespace(client, &descriptor, &ns));
  orlop_page_cache* cache = open_cache(client);

  for (size_t layer = 0; layer < kLayers; ++layer)
    for (size_t i = 0; i < kTensorBytes; ++i)
      cache_memory[layer][i] = (unsigned char)(i * 7 + i / 4096 + layer);
  const orlop_keys keys = {.count = kKeys, .packed = "page0page1page2page3", .key_len = 5};
  back_up(client, ns, cache, &keys, from);
  const uint32_t valid = restore(client, ns, cache, &keys, to);
  printf("restored %" PRIu32 " of %d pages\n", valid, kKeys);
  for (size_t i = 0; i < valid; ++i)
    for (size_t part = 0; part < kLayers * 2; ++part)
      if (memcmp(page_at(part / 2, part % 2, from[i]), page_at(part / 2, part % 2, to[i]),
                 kPageBytes) != 0) {
        fprintf(stderr, "page %" PRId64 ": wrong bytes\n", to[i]);
        return 1;
      }

  orlop_page_cache_free(cache);
  orlop_namespace_free(ns);
  orlop_client_free(client);
  return 0;
}
