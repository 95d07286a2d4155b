/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Memory that kernels read and write: on 64-byte boundaries, large pieces in huge pages. */
#ifndef ATTN_ENGINE_MEMORY_H
#define ATTN_ENGINE_MEMORY_H

#include <stddef.h>

enum {
  ATTN_ALIGNMENT = 64,
  ATTN_HUGE_PAGE = 2 << 20 /* of x86-64, and of 64-bit Arm with pages of 4 KB */
};

static inline size_t attn_align(size_t bytes) {
  return (bytes + ATTN_ALIGNMENT - 1) & ~(size_t)(ATTN_ALIGNMENT - 1);
}

/* `bytes`, contents undefined; NULL when there is none. From a huge page on the memory is the system's own, beginning on a
 * boundary of those, and they are asked for where they fit as a whole; what of them is granted takes memory when first
 * touched, and belongs to the node of the thread that does. docs/performance.md says what it brings. */
void *attn_allocate(size_t bytes);

/* NULL is fine; `bytes` as allocated. */
void attn_release(void *memory, size_t bytes);

#endif
