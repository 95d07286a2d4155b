/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#define _DEFAULT_SOURCE /* madvise, MAP_ANONYMOUS */
#include "memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Not from malloc(): what was advised would stay so in the heap of the process. */
static void *map_memory(size_t bytes) {
  const size_t room = bytes + ATTN_HUGE_PAGE;
  char *map = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return NULL;
  const size_t before = -(uintptr_t)map % ATTN_HUGE_PAGE;
  char *memory = map + before;
  if (before > 0) munmap(map, before);
  munmap(memory + bytes, room - before - bytes);
  madvise(memory, bytes, MADV_HUGEPAGE); /* does no harm to fail */
  return memory;
}

/* What of it is mapped: whole small pages, of any size that a kernel may have. */
static size_t mapped(size_t bytes) {
  const size_t page = 64 << 10;
  return (bytes + page - 1) / page * page;
}

void *attn_allocate(size_t bytes) {
  if (bytes > SIZE_MAX / 2) return NULL;
  if (bytes >= ATTN_HUGE_PAGE) return map_memory(mapped(bytes));
  return aligned_alloc(ATTN_ALIGNMENT, attn_align(bytes));
}

void attn_release(void *memory, size_t bytes) {
  if (memory && bytes >= ATTN_HUGE_PAGE) {
    munmap(memory, mapped(bytes));
  } else {
    free(memory);
  }
}
