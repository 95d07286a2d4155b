/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISONS 1
#endif
#endif
#ifdef POISONS
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(bytes, size) ((void)(bytes), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(bytes, size) ((void)(bytes), (void)(size))
#endif

enum { PATTERN = 0xA5 };

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static void protect(void *start, size_t size, int protection) {
  if (size && mprotect(start, size, protection) != 0) {
    perror("mprotect");
    exit(1);
  }
}

guarded guard_alloc(size_t size, guard_side side) {
  size_t page = page_size();
  size_t inner = (size + page - 1) / page * page;
  guarded g = {.size = size, .map_size = inner + 2 * page};
  g.map = mmap(NULL, g.map_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (g.map == MAP_FAILED) {
    perror("mmap");
    exit(1);
  }
  memset(g.map + page, PATTERN, inner);
  g.data = g.map + page + (side == GUARD_AFTER ? inner - size : 0);
  protect(g.map, page, PROT_NONE);
  protect(g.map + page + inner, page, PROT_NONE);
  return g;
}

bool guard_intact(const guarded *g) {
  size_t page = page_size();
  const unsigned char *data = g->data;
  for (const unsigned char *p = g->map + page; p < g->map + g->map_size - page; p++) {
    if (p >= data && p < data + g->size) continue;
    if (*p != PATTERN) return false;
  }
  return true;
}

void guard_poison(const void *bytes, size_t size) { ASAN_POISON_MEMORY_REGION(bytes, size); }

void guard_free(guarded *g) {
  ASAN_UNPOISON_MEMORY_REGION(g->map, g->map_size); /* whoever is given these addresses next */
  munmap(g->map, g->map_size);
  *g = (guarded){0};
}

void guard_forbid(guarded *g) {
  protect(g->map + page_size(), g->map_size - 2 * page_size(), PROT_NONE);
}

void guard_read_only(guarded *g) {
  protect(g->map + page_size(), g->map_size - 2 * page_size(), PROT_READ);
}
