/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Memory that notices a byte too far: an unreadable page right before the first or right after
 * the last byte, and a pattern in what is left of the page on the other side. */
#ifndef ATTN_TESTS_GUARD_H
#define ATTN_TESTS_GUARD_H

#include <stdbool.h>
#include <stddef.h>

typedef enum guard_side {
  GUARD_BEFORE, /* data begins at the start of a page, the page before it faults */
  GUARD_AFTER   /* data ends at the end of a page, the page after it faults */
} guard_side;

typedef struct guarded {
  void *data;
  size_t size;
  unsigned char *map; /* faulting page, the data's pages, faulting page */
  size_t map_size;
} guarded;

/* Exactly `size` bytes. With GUARD_AFTER the data starts as unaligned as its size makes it. */
guarded guard_alloc(size_t size, guard_side side);
/* Whether the pattern around the data is untouched. */
bool guard_intact(const guarded *g);
void guard_free(guarded *g);

/* From now on any access to the data faults, or reading alone is allowed. */
void guard_forbid(guarded *g);
void guard_read_only(guarded *g);

/* Any access to these bytes inside the data fails until it is freed, in builds with the address sanitizer; elsewhere nothing
 * does. Bytes before others of the same eight are not caught. */
void guard_poison(const void *bytes, size_t size);

#endif
