// SPDX-License-Identifier: Apache-2.0
// Loads the library by name, uses it, unloads it with a client open and a thread that has been in
// it, and ends: nothing may crash. Usage: unload LIBRARY SOCKET.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "orlop/orlop.h"

typedef orlop_status (*open_call)(const orlop_client_options*, orlop_client**);
typedef orlop_status (*wait_call)(const orlop_client*, int64_t);
typedef orlop_status (*ping_call)(orlop_client*);

static orlop_client* client;
static ping_call ping;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

// Its thread-exit handlers run after the dlclose.
static void* visit(void* unused) {
  const orlop_status status = ping(client);
  (void)unused;
  pthread_mutex_lock(&turn);
  pthread_mutex_unlock(&turn);
  return status == ORLOP_OK ? &client : NULL;
}

// A pointer to a function out of one to data, which C does not convert.
static int load(void* library, const char* name, void* call, size_t size) {
  void* address = dlsym(library, name);
  if (address == NULL) return 0;
  memcpy(call, &address, size);
  return 1;
}

int main(int argc, char** argv) {
  open_call open;
  wait_call wait;
  pthread_t visitor;
  void* visited = NULL;
  if (argc != 3) return 2;
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  if (!load(library, "orlop_open", &open, sizeof open) ||
      !load(library, "orlop_wait_ready", &wait, sizeof wait) ||
      !load(library, "orlop_ping", &ping, sizeof ping))
    return 3;
  orlop_client_options options = {.struct_size = sizeof options, .call_budget_ms = 20000};
  options.socket = orlop_text_of(argv[2]);
  if (open(&options, &client) != ORLOP_OK || wait(client, 20000) != ORLOP_OK) return 4;
  pthread_mutex_lock(&turn);
  if (pthread_create(&visitor, NULL, visit, NULL) != 0) return 5;
  if (dlclose(library) != 0) return 6;
  pthread_mutex_unlock(&turn);
  if (pthread_join(visitor, &visited) != 0 || visited == NULL) return 7;
  // Still there, as the header says.
  if (dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == NULL) return 8;
  puts("unloaded");
  return 0;  // with the client open
}
