// SPDX-License-Identifier: Apache-2.0
// One client, several threads: each puts and reads pages of its own and of the others. Run as it is
// and under ThreadSanitizer. Exit status 0 when every byte was right.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orlop/orlop.h"

enum { kThreads = 4, kRounds = 50, kBatch = 4, kValueLen = 4096, kKeyLen = 8 };

static orlop_client* client;
static orlop_namespace* ns;

static void check(const char* call, orlop_status status) {
  if (status == ORLOP_OK) return;
  fprintf(stderr, "%s: %s: %s\n", call, orlop_status_name(status), orlop_error_message());
  exit(1);
}

// Keys "T-RRRRBB" of one batch, packed, and what is in their pages.
static void name_keys(char* packed, int thread, int round) {
  for (int i = 0; i < kBatch; ++i) {
    char key[32];
    snprintf(key, sizeof key, "%d-%04d%02d", thread, round, i);
    memcpy(packed + i * kKeyLen, key, kKeyLen);
  }
}
static int byte_of(int thread, int round) {
  return (thread * 31 + round) & 0xff;
}

static void put_batch(int thread, int round) {
  char packed[kBatch * kKeyLen];
  static const orlop_put_options whole = {.struct_size = sizeof whole};
  unsigned char page[kValueLen];
  orlop_bytes buffers[kBatch];
  orlop_outcome outcomes[kBatch];
  name_keys(packed, thread, round);
  memset(page, byte_of(thread, round), sizeof page);
  for (int i = 0; i < kBatch; ++i) {
    buffers[i].data = page;
    buffers[i].size = sizeof page;
  }
  const orlop_keys keys = {.count = kBatch, .packed = packed, .key_len = kKeyLen};
  check("put", orlop_put(client, ns, &keys, buffers, kBatch, &whole, outcomes, kBatch));
  for (int i = 0; i < kBatch; ++i)
    if (outcomes[i] != ORLOP_OUTCOME_STORED) {
      fprintf(stderr, "put: %s\n", orlop_outcome_name(outcomes[i]));
      exit(1);
    }
}

static void check_batch(int thread, int round, int must_be_there) {
  char packed[kBatch * kKeyLen];
  name_keys(packed, thread, round);
  const orlop_keys keys = {.count = kBatch, .packed = packed, .key_len = kKeyLen};
  orlop_get_handle* handle = NULL;
  orlop_read_plan* views = NULL;
  orlop_get_result found = {.struct_size = sizeof found};
  check("get_start", orlop_get_start(client, ns, &keys, NULL, &handle, &found));
  check("get_transfer", orlop_get_transfer(client, handle, ORLOP_WHOLE_PREFIX, &views));
  if (must_be_there && !found.all_hit) {
    fprintf(stderr, "a page is missing: %s\n",
            orlop_miss_reason_name((orlop_miss_reason)found.reason));
    exit(1);
  }
  for (size_t i = 0; i < orlop_read_plan_size(views); ++i) {
    orlop_bytes bytes;
    check("view", orlop_view(views, i, 0, &bytes));
    const unsigned char* page = bytes.data;
    if (page[0] != byte_of(thread, round) || page[kValueLen - 1] != page[0]) {
      fprintf(stderr, "wrong bytes\n");
      exit(1);
    }
  }
  orlop_read_plan_free(views);
  orlop_get_handle_free(handle);
}

static void* work(void* number) {
  const int thread = *(const int*)number;
  for (int round = 0; round < kRounds; ++round) {
    put_batch(thread, round);
    check_batch(thread, round, 1);
    check_batch((thread + 1) % kThreads, round, 0);
    // Errors belong to the thread that made them.
    if (orlop_ping(NULL) != ORLOP_INVALID_ARGUMENT) exit(1);
    if (strncmp(orlop_error_message(), "client: is NULL", 15) != 0) exit(1);
  }
  return NULL;
}

int main(int argc, char** argv) {
  static const char* const descriptor =
      "{\"engine\":\"test\",\"layout\":\"test-1/flat\",\"model\":\"threads\",\"revision\":\"r1\","
      "\"dtype\":\"u8\",\"page_tokens\":16,\"value_len\":4096}";
  orlop_client_options options = {.struct_size = sizeof options, .call_budget_ms = 20000};
  pthread_t threads[kThreads];
  int numbers[kThreads];
  if (argc > 1) options.socket = orlop_text_of(argv[1]);
  check("open", orlop_open(&options, &client));
  check("wait_ready", orlop_wait_ready(client, 20000));
  check("open_namespace", orlop_open_namespace_json(client, orlop_text_of(descriptor), &ns));
  for (int i = 0; i < kThreads; ++i) {
    numbers[i] = i;
    if (pthread_create(&threads[i], NULL, work, &numbers[i]) != 0) return 1;
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  orlop_client_free(client);
  orlop_namespace_free(ns);
  puts("every byte was right");
  return 0;
}
