/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* A context is a list of idle blocks. Its lock is only ever tried, never waited for: a caller that
 * finds it taken allocates, and one that cannot give a block back frees it. So no call blocks
 * another, and a child forked while some thread held the lock still works. */

#include "context.h"

#include "status.h"

#include <stdatomic.h>
#include <stdlib.h>

typedef struct block {
  struct block *next;
  size_t bytes;
  char pad[ATTN_ALIGNMENT - 2 * sizeof(void *)];
} block;
_Static_assert(sizeof(block) == ATTN_ALIGNMENT, "scratch starts one alignment behind its block");

struct attn_context {
  atomic_flag busy;
  block *idle;
};

static attn_context default_context = {ATOMIC_FLAG_INIT, NULL};

static bool try_lock(attn_context *c) {
  return !atomic_flag_test_and_set_explicit(&c->busy, memory_order_acquire);
}

static void unlock(attn_context *c) { atomic_flag_clear_explicit(&c->busy, memory_order_release); }

/* The smallest idle block that is large enough, taken off the list. */
static block *take(attn_context *c, size_t bytes) {
  block **best = NULL;
  for (block **at = &c->idle; *at; at = &(*at)->next) {
    if ((*at)->bytes >= bytes && (!best || (*at)->bytes < (*best)->bytes)) best = at;
  }
  if (!best) return NULL;
  block *found = *best;
  *best = found->next;
  return found;
}

/* Nothing idle was large enough: what is idle will not be, either, so one block makes room. */
static void drop_one(attn_context *c) {
  block *first = c->idle;
  if (!first) return;
  c->idle = first->next;
  free(first);
}

void *attn_scratch_acquire(attn_context *context, size_t bytes) {
  attn_context *c = context ? context : &default_context;
  if (try_lock(c)) {
    block *found = take(c, bytes);
    if (!found) drop_one(c);
    unlock(c);
    if (found) return found + 1;
  }
  if (bytes > SIZE_MAX - 2 * ATTN_ALIGNMENT) return NULL;
  block *fresh = aligned_alloc(ATTN_ALIGNMENT, attn_align(bytes) + sizeof(block));
  if (!fresh) return NULL;
  fresh->bytes = attn_align(bytes);
  return fresh + 1;
}

void attn_scratch_release(attn_context *context, void *scratch) {
  attn_context *c = context ? context : &default_context;
  if (!scratch) return;
  block *b = (block *)scratch - 1;
  if (!try_lock(c)) {
    free(b);
    return;
  }
  b->next = c->idle;
  c->idle = b;
  unlock(c);
}

attn_status attn_context_create(attn_context **context) {
  if (!context)
    return attn_fail(ATTN_INVALID_ARGUMENT, "context is NULL; it must point to a handle");
  attn_context *c = malloc(sizeof(*c));
  if (!c) return attn_fail(ATTN_OUT_OF_MEMORY, "no memory for a context");
  atomic_flag_clear(&c->busy);
  c->idle = NULL;
  *context = c;
  return ATTN_OK;
}

void attn_context_trim(attn_context *context) {
  attn_context *c = context ? context : &default_context;
  if (!try_lock(c)) return;
  while (c->idle) drop_one(c);
  unlock(c);
}

void attn_context_destroy(attn_context *context) {
  if (!context) return;
  attn_context_trim(context);
  free(context);
}
