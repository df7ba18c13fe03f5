// SPDX-License-Identifier: Apache-2.0
// Four pages into a node's memory and out again, from plain C99.
//
//   cc -std=c99 orlop_example.c $(pkg-config --cflags --libs orlop) -o orlop_example
//   orlopd --socket /tmp/node.sock --capacity 64MiB &
//   ./orlop_example /tmp/node.sock        # [SOCKET [MILLISECONDS TO WAIT FOR THE NODE]]
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orlop/orlop.h"

enum { kPages = 4, kValueLen = 4096, kPatienceMs = 10000 };

// What a KV cache of an engine would say about itself. Everybody who says the same shares the
// pages.
static const char* const kDescriptor =
    "{\"engine\":\"example\",\"layout\":\"example-1/flat\",\"model\":\"tiny\",\"revision\":\"r1\","
    "\"dtype\":\"u8\",\"page_tokens\":16,\"value_len\":4096}";

static void check(const char* call, orlop_status status) {
  if (status == ORLOP_OK) return;
  fprintf(stderr, "%s: %s: %s\n", call, orlop_status_name(status), orlop_error_message());
  exit(1);
}

// One page, filled by us with the number of its key.
static void write_pages(orlop_client* client, const orlop_namespace* ns, const orlop_keys* keys) {
  static unsigned char page[kValueLen];
  orlop_put_plan* plan = NULL;
  orlop_future* future = NULL;
  orlop_outcome outcomes[kPages];
  check("put_start", orlop_put_start(client, ns, keys, NULL, &plan));
  for (size_t i = 0; i < orlop_put_plan_size(plan); ++i) {
    if (orlop_put_plan_outcome(plan, i) != ORLOP_OUTCOME_PREPARED) continue;  // it is there already
    memset(page, (int)('0' + i), sizeof page);
    check("copy_in", orlop_copy_in(plan, i, page, sizeof page));
  }
  check("put_commit", orlop_put_commit(client, plan, &future));
  check("future_wait", orlop_future_wait(future, kPatienceMs, outcomes, kPages));
  for (size_t i = 0; i < kPages; ++i)
    printf("put  page%d: %s\n", (int)i, orlop_outcome_name(outcomes[i]));
  orlop_future_free(future);
  orlop_put_plan_free(plan);
}

static void read_pages(orlop_client* client, const orlop_namespace* ns, const orlop_keys* keys) {
  orlop_get_handle* handle = NULL;
  orlop_read_plan* views = NULL;
  orlop_get_result found = {.struct_size = sizeof found};
  check("get_start", orlop_get_start(client, ns, keys, NULL, &handle, &found));
  printf("get  %" PRIu32 " of %d pages\n", found.transferable_len, kPages);
  check("get_transfer", orlop_get_transfer(client, handle, ORLOP_WHOLE_PREFIX, &views));
  for (size_t i = 0; i < orlop_read_plan_size(views); ++i) {
    orlop_bytes bytes;  // in the node's memory: nothing is copied
    check("view", orlop_view(views, i, 0, &bytes));
    const unsigned char* page = bytes.data;
    for (size_t b = 0; b < bytes.size; ++b)
      if (page[b] != '0' + i) {
        fprintf(stderr, "page%d: wrong byte\n", (int)i);
        exit(1);
      }
  }
  check("release_views", orlop_release_views(client, views));
  orlop_read_plan_free(views);
  orlop_get_handle_free(handle);
}

int main(int argc, char** argv) {
  orlop_client_options options = {.struct_size = sizeof options};
  options.name = orlop_text_of("example");
  if (argc > 1) options.socket = orlop_text_of(argv[1]);  // else $ORLOP_SOCKET or the default
  const long patience_ms = argc > 2 ? strtol(argv[2], NULL, 10) : kPatienceMs;
  orlop_client* client = NULL;
  orlop_namespace* ns = NULL;
  check("open", orlop_open(&options, &client));
  check("wait_ready", orlop_wait_ready(client, patience_ms));
  check("open_namespace", orlop_open_namespace_json(client, orlop_text_of(kDescriptor), &ns));

  // Keys of one length in one buffer: no array of pointers is needed.
  const orlop_keys keys = {.count = kPages, .packed = "page0page1page2page3", .key_len = 5};
  write_pages(client, ns, &keys);

  uint32_t present = 0;
  check("exists", orlop_exists(client, ns, &keys, &present, NULL, 0));
  printf("have %" PRIu32 " of %d pages\n", present, kPages);

  read_pages(client, ns, &keys);

  orlop_client_stats stats = {.struct_size = sizeof stats};
  check("stats", orlop_stats(client, &stats));
  printf("hits %" PRIu64 " of %" PRIu64 " keys asked\n", stats.keys_hit, stats.keys_asked);
  orlop_namespace_free(ns);
  orlop_client_free(client);
  return 0;
}
