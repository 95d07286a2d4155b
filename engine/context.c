/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* A context is a list of idle blocks. Its lock, held for a walk of that short list, is tried a number of times, never
 * waited for: a caller that does not get it allocates, and one that cannot give a block back frees it. So a
 * child forked while some thread held the lock still works. */

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
  for (int i = 0; i < 100; i++) {
    if (!atomic_flag_test_and_set_explicit(&c->busy, memory_order_acquire)) return true;
  }
  return false;
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

static void give_back(block *b) {
  if (b) attn_release(b, b->bytes + sizeof(block));
}

/* Takes the largest idle block off the list: the nearest to what is missing, and not large enough. */
static block *take_largest(attn_context *c) {
  size_t most = 0;
  for (const block *b = c->idle; b; b = b->next) most = b->bytes > most ? b->bytes : most;
  return most ? take(c, most) : NULL;
}

/* Sizes in steps of an eighth, so that lengths that grow by one do not allocate every time. */
static size_t round_up(size_t bytes) {
  size_t step = ATTN_ALIGNMENT;
  while (step < bytes / 8) step *= 2;
  return (bytes + step - 1) / step * step;
}

void *attn_scratch_acquire(attn_context *context, size_t bytes) {
  attn_context *c = context ? context : &default_context;
  if (try_lock(c)) {
    block *found = take(c, bytes), *small = found ? NULL : take_largest(c);
    unlock(c);
    if (found) return found + 1;
    give_back(small);
  }
  if (bytes > SIZE_MAX / 4) return NULL;
  bytes = round_up(bytes + sizeof(block));
  block *fresh = attn_allocate(bytes);
  if (!fresh) return NULL;
  fresh->bytes = bytes - sizeof(block);
  return fresh + 1;
}

void attn_scratch_release(attn_context *context, void *scratch) {
  attn_context *c = context ? context : &default_context;
  if (!scratch) return;
  block *b = (block *)scratch - 1;
  if (!try_lock(c)) {
    give_back(b);
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
  for (block *b; (b = take_largest(c)) != NULL;) give_back(b);
  unlock(c);
}

void attn_context_destroy(attn_context *context) {
  if (!context) return;
  attn_context_trim(context);
  free(context);
}
