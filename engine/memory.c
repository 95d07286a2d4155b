/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#define _DEFAULT_SOURCE /* madvise */
#include "memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

void attn_ask_huge_pages(void *memory, size_t bytes) {
#ifdef MADV_HUGEPAGE
  madvise(memory, bytes, MADV_HUGEPAGE);
#else
  (void)memory;
  (void)bytes;
#endif
}

void *attn_allocate(size_t bytes) {
  const size_t unit = bytes < ATTN_HUGE_PAGE ? ATTN_ALIGNMENT : ATTN_HUGE_PAGE;
  if (bytes > SIZE_MAX - unit) return NULL;
  bytes = (bytes + unit - 1) / unit * unit;
  void *memory = aligned_alloc(unit, bytes);
  if (memory && unit == ATTN_HUGE_PAGE) attn_ask_huge_pages(memory, bytes);
  return memory;
}
